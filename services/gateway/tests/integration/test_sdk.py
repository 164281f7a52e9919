"""The SDK against this gateway over HTTP: both read the same protos, and here they meet."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from ratchet.common.v1 import model_pb2
from ratchet.gateway.v1 import release_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import ApiError, AsyncClient, Client, traffic
from ratchet_kit import errors
from ratchet_kit.http_server import HttpServer

from ..world import ADMIN_KEY, NoStub, World

STARTER_2 = model_pb2.VersionRef(model="starter", number=2)


class Trainer(NoStub):
    """Run "run_1"; lists have two pages."""

    async def CreateRun(self, request):
        if not request.spec.steps:
            raise errors.InvalidArgument("bad spec", [errors.FieldViolation("spec.steps", "must be positive")])
        return trainer_pb2.CreateRunResponse(run=trainer_pb2.Run(id="run_1", spec=request.spec))

    async def GetRun(self, request):
        return trainer_pb2.GetRunResponse(run=trainer_pb2.Run(id=request.id))

    async def ListRuns(self, request):
        id, more = ("run_1", "") if request.page_token else ("run_2", "next")
        run = trainer_pb2.Run(id=id, state=request.state)
        return trainer_pb2.ListRunsResponse(runs=[run], next_page_token=more)

    async def DeleteRun(self, request):
        raise errors.FailedPrecondition(f"{request.id} is under way")

    async def WatchRun(self, request):
        for step in (1, 2):
            yield trainer_pb2.WatchRunResponse(run=trainer_pb2.Run(id=request.id, step=step))
        if request.after_step:
            raise errors.Unavailable("trainer went away")

    CancelRun = ResumeRun = GetRun


class Registry(NoStub):
    async def SetAlias(self, request):
        if request.HasField("expected_number") and request.expected_number != 1:
            raise errors.Aborted("the alias has moved")
        model = registry_pb2.Model(name=request.model, aliases={request.alias: request.number})
        return registry_pb2.SetAliasResponse(model=model)

    async def CreateGate(self, request):
        return registry_pb2.CreateGateResponse(gate=registry_pb2.Gate(id="gate_1", candidate=request.candidate))

    async def DeleteVersion(self, request):
        return registry_pb2.DeleteVersionResponse()


@pytest.fixture
async def url(world: World) -> AsyncIterator[str]:
    world.stubs |= {"ratchet.trainer.v1.TrainerService": Trainer(), "ratchet.registry.v1.RegistryService": Registry()}
    await world.start()
    server = HttpServer(world.gateway.http, "127.0.0.1", 0, timedelta(seconds=2))
    stop = asyncio.Event()
    running = asyncio.create_task(server.run(stop))
    yield server.url
    stop.set()
    await running


@pytest.fixture
async def client(url: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(url, ADMIN_KEY) as client:
        yield client


async def test_runs(client: AsyncClient) -> None:
    spec = trainer_pb2.RunSpec(steps=3, base=model_pb2.ModelRef(version=STARTER_2))
    assert (await client.runs.create(spec)).spec == spec
    with pytest.raises(ApiError) as refused:
        await client.runs.create(trainer_pb2.RunSpec())
    assert refused.value.violations[0]["field"] == "spec.steps"
    found = [run async for run in client.runs.list(state=trainer_pb2.Run.STATE_FAILED)]
    assert [(run.id, run.state) for run in found] == [
        ("run_2", trainer_pb2.Run.STATE_FAILED),
        ("run_1", trainer_pb2.Run.STATE_FAILED),
    ]
    assert (await client.runs.wait("run_1")).step == 2
    with pytest.raises(ApiError, match="trainer went away"):
        [message async for message in client.runs.watch("run_1", after_step=1)]
    with pytest.raises(ApiError, match="is under way") as kept:
        await client.runs.delete("run_1")
    assert (kept.value.status, kept.value.code) == (409, "FAILED_PRECONDITION")


async def test_fields_of_the_path_at_any_depth(client: AsyncClient) -> None:
    assert (await client.models.create_gate(STARTER_2, "eval_2", "eval_1")).candidate == STARTER_2
    assert (await client.models.set_alias("starter", "champion", 2, expected_number=1)).aliases["champion"] == 2
    with pytest.raises(ApiError, match="the alias has moved"):
        await client.models.set_alias("starter", "champion", 2, expected_number=0)
    assert await client.models.delete_version("starter", 2) is None


async def test_keys_chat_and_releases_for_both_clients(client: AsyncClient, url: str, world: World) -> None:
    made = await client.keys.create("app")
    assert "app" in [key.name async for key in client.keys.list()]

    def as_an_application() -> None:
        with Client(url, made.secret) as application:
            completion = application.chat("starter", "say hi")
            assert completion.version == "starter@1"
            assert application.feedback(completion.id, score=0.5, metrics={"accepted_chars": 2}) == 0.5
            assert application.feedback(completion.id, metrics={"accepted_chars": 120, "seconds": 1.5}) == 0
            with pytest.raises(ApiError) as unknown:
                application.feedback(completion.id, metrics={"Accepted chars": 120})
            assert unknown.value.violations[0]["field"] == "metrics"
            with pytest.raises(ApiError) as refused:
                next(application.releases.list())
            assert refused.value.status == 403

    await asyncio.to_thread(as_an_application)
    await world.gateway.recorder.flush()
    assert [one.metrics for one in await world.records()] == [{"accepted_chars": 120, "seconds": 1.5}]
    release = await client.releases.create(release_pb2.ReleaseSpec(candidate=STARTER_2, gate_id="gate_2"))
    assert (await client.releases.rollback(release.id, "enough")).percent == 0
    assert (await client.keys.revoke(made.key.id)).HasField("revoke_time")


async def test_traffic_for_both_clients(client: AsyncClient, url: str) -> None:
    made = await client.keys.create("app", keep_traffic=True)

    def as_an_application() -> str:
        with Client(url, made.secret) as application:
            completion = application.chat("starter", "mail ann@example.com", routing_key="ann")
            assert application.feedback(completion.id, accepted="done, bob@example.com") == 0
            assert application.feedback(completion.id, thumb_up=True) == 1
            return completion.id

    completion_id = await asyncio.to_thread(as_an_application)
    (exchange,) = [one async for one in client.traffic.list("starter", made.key.id)]
    assert (exchange.id, exchange.score, exchange.accepted.text) == (completion_id, 1, "done, <email>")
    (pair,) = [traffic.pair_row(one) async for one in client.traffic.pairs()]
    assert pair["prompt"] == [{"role": "user", "content": "mail <email>"}]
    (problem,) = [one async for one in client.traffic.problems()]
    assert problem.references == ["done, <email>"]
    with pytest.raises(ApiError):
        await client.traffic.forget()
    assert await client.traffic.forget(user="ann") == 1
    assert [one async for one in client.traffic.list()] == []
    assert not (await client.keys.set_traffic(made.key.id, False)).keep_traffic
