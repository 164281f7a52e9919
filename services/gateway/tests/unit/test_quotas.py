"""What a project may use, and what it is told at the end of it."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway_service.adapters.ledger import GrpcLedger
from gateway_service.domain.keys.caller import ANYBODY
from gateway_service.domain.keys.key import Scope
from gateway_service.domain.keys.quotas import Quota, Quotas, Used
from gateway_service.domain.keys.usage import KeyLimits, Usage
from ratchet.common.v1 import model_pb2, usage_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.registry.v1 import dataset_pb2, registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit import projects
from ratchet_kit.errors import ResourceExhausted
from ratchet_kit.times import duration_to_proto
from ratchet_testing import ManualClock

from ..world import World

QUOTA = Quota(runs=2, gpu_seconds=100, cpu_seconds=1000, storage_bytes=1 << 30, cost=50)


@dataclass
class Books:
    found: Used = field(default_factory=Used)
    asked: list[tuple[str, datetime]] = field(default_factory=list)

    async def used(self, project: str, since: datetime) -> Used:
        self.asked.append((project, since))
        return self.found


@pytest.mark.parametrize(
    ("rpc", "used", "said"),
    [
        ("CreateRun", Used(runs=2), "project acme has used its 2 runs at the same time"),
        ("ResumeRun", Used(gpu_seconds=100.5), "project acme has used its 100 GPU-seconds of this month"),
        ("CreateEvaluation", Used(cpu_seconds=2000), "project acme has used its 1,000 CPU-seconds"),
        ("CreateRun", Used(cost=50.2), "project acme has used its 50 in costs of runs and evaluations of this month"),
        ("CreateEvaluation", Used(cost=50), "project acme has used its 50 in costs"),
        ("CreateVersion", Used(storage_bytes=1 << 30), "bytes of versions and data sets: delete"),
        ("CreateDataset", Used(storage_bytes=1 << 31), "bytes of versions and data sets: delete"),
        ("CreateDataset", Used(runs=9, gpu_seconds=999), ""),
        ("CancelRun", Used(runs=9, gpu_seconds=999), ""),
    ],
)
async def test_what_is_used_up_is_refused(clock: ManualClock, rpc: str, used: Used, said: str) -> None:
    quotas = Quotas({"acme": QUOTA}, Books(used), clock)
    for project in ("acme", "beta", projects.DEFAULT, ""):
        is_over = project == "acme" and said
        with pytest.raises(ResourceExhausted, match=said) if is_over else nullcontext():
            async with quotas.room(rpc, project):
                pass


async def test_at_80_percent_the_log_has_a_warning(clock: ManualClock, capfd: pytest.CaptureFixture[str]) -> None:
    books = Books(Used(gpu_seconds=79))
    quotas = Quotas({"acme": QUOTA}, books, clock)
    for gpu_seconds, warnings in ((79, 0), (80, 1)):
        books.found = Used(gpu_seconds=gpu_seconds)
        async with quotas.room("CreateRun", "acme"):
            pass
        assert "".join(capfd.readouterr()).count("project.quota_nearly_used") == warnings
    (_, since), _ = books.asked
    assert (since.day, since.hour, since.tzinfo) == (1, 0, UTC)


async def test_two_at_once_do_not_share_the_last_place(clock: ManualClock) -> None:
    books = Books(Used(runs=1))
    quotas = Quotas({"acme": QUOTA}, books, clock)

    async def create() -> None:
        async with quotas.room("CreateRun", "acme"):
            await asyncio.sleep(0)
            books.found = replace(books.found, runs=books.found.runs + 1)

    ended = await asyncio.gather(create(), create(), return_exceptions=True)
    assert [type(one) for one in ended] == [type(None), ResourceExhausted]


async def test_tokens_are_of_all_keys_of_a_project(clock: ManualClock) -> None:
    async def stored(month: str) -> dict[str, int]:
        return {first.id: 600, second.id: 390, "key_01JD3MZ5Y1W4C8T9Q2K7V6B0XN": 5000}

    first, second = (replace(ANYBODY, id=f"key_01JD3MZ5Y1W4C8T9Q2K7V6B0X{last}-acme") for last in "AB")
    usage = Usage(KeyLimits(), clock, stored, {"acme": 1000})
    await usage.refresh()
    usage.require_tokens(first)
    usage.spend(second, 10)
    with pytest.raises(ResourceExhausted, match="project acme has used its 1,000 tokens"):
        usage.require_tokens(first)
    usage.require_tokens(ANYBODY)


class Lists:
    """Of all services: one item to a page."""

    def __init__(self) -> None:
        time = usage_pb2.Usage(gpu_time=duration_to_proto(timedelta(seconds=30)), cost=1.5)
        self.runs = [
            trainer_pb2.Run(state=trainer_pb2.Run.STATE_RUNNING, usage=time),
            trainer_pb2.Run(state=trainer_pb2.Run.STATE_SUCCEEDED, usage=time),
        ]
        cpu = usage_pb2.Usage(
            cpu_time=duration_to_proto(timedelta(seconds=7)), sandbox_time=duration_to_proto(timedelta(seconds=1))
        )
        self.evaluations = [eval_pb2.Evaluation(usage=cpu), eval_pb2.Evaluation(usage=cpu)]
        self.versions = [
            registry_pb2.Version(ref=model_pb2.VersionRef(model=model, number=1), size_bytes=size)
            for model, size in (("acme~coder", 100), ("starter", 5000))
        ]
        split = dataset_pb2.DatasetSplit(name="train", size_bytes=10, content_bytes=11)
        self.datasets = [dataset_pb2.Dataset(name=name, splits=[split]) for name in ("acme~mine", "x")]
        self.acted: set[str] = set()

    def _page(self, items: Sequence[Any], request: Any, reply: Any, field: str) -> Any:
        self.acted.add(projects.current())
        place = int(request.page_token or 0)
        getattr(reply, field).extend(items[place : place + 1])
        reply.next_page_token = str(place + 1) if place + 1 < len(items) else ""
        return reply

    async def ListRuns(self, request: Any) -> Any:
        runs = [run for run in self.runs if request.state in (0, run.state)]
        return self._page(runs, request, trainer_pb2.ListRunsResponse(), "runs")

    async def ListEvaluations(self, request: Any) -> Any:
        return self._page(self.evaluations, request, eval_pb2.ListEvaluationsResponse(), "evaluations")

    async def ListVersions(self, request: Any) -> Any:
        return self._page(self.versions, request, registry_pb2.ListVersionsResponse(), "versions")

    async def ListDatasets(self, request: Any) -> Any:
        return self._page(self.datasets, request, dataset_pb2.ListDatasetsResponse(), "datasets")


async def test_the_ledger_is_what_the_services_list(clock: ManualClock) -> None:
    lists = Lists()
    used = await GrpcLedger(lists, lists, lists, lists).used("acme", clock.now())
    assert used == Used(runs=1, gpu_seconds=60, cpu_seconds=16, storage_bytes=111, cost=3)
    assert lists.acted == {"acme"}


async def test_a_run_beyond_the_quota_is_refused_over_rest(world: World) -> None:
    world.settings = world.settings.model_copy(update={"quotas": {"acme": QUOTA}})
    world.ledger = Books(Used(runs=2))
    await world.start()
    made = await world.gateway.keys.create("", "acme", [Scope.TRAIN], project="acme")
    async with world.http() as http:
        http.headers["authorization"] = f"Bearer {made.secret}"
        reply = await http.post("/api/v1/runs", json={"spec": {"output_model": "acme~coder"}})
    assert (reply.status_code, reply.json()["error"]["code"]) == (429, "RESOURCE_EXHAUSTED")
