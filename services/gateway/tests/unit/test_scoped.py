"""Two teams on one gateway: every RPC, with everything of the other team's that a request can name."""

import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from gateway_service.domain.keys.caller import set_caller
from gateway_service.domain.keys.key import Scope
from gateway_service.scoped import EPISODES, LABELS, OWN, PLACES, SHARED, Scoped, hidden
from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit import projects
from ratchet_kit.errors import (
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    RatchetError,
)
from ratchet_protos.http import rules
from ratchet_testing.requests import fill, text_fields

from ..world import PEER_SERVICES, World

ULID, ANOTHER = "01JD3MZ5Y1W4C8T9Q2K7V6B0XN", "01JD3MZ5Y1W4C8T9Q2K7V6B0XP"
KINDS = ("run", "eval", "pair", "gate", "batch", "rel", "exp", "key", "hook", "cmpl")
THEIRS = (
    "beta~coder",
    "beta~coder@1",
    "beta~coder:champion",
    "beta~mine@1/train",
    *(f"{kind}_{ULID}-beta" for kind in KINDS),
)
"""What the other team has."""
NOT_THERE = {name: name.replace("coder", "nodel").replace("mine", "none").replace(ULID, ANOTHER) for name in THEIRS}
"""The same, of what nobody has."""


class Asked:
    """A service that has whatever is asked of it, and says what it was asked."""

    def __init__(self, service: str) -> None:
        self.requests: list[Message] = []
        for method in descriptor_pool.Default().FindServiceByName(service).methods:
            setattr(self, method.name, self._streams(method) if method.server_streaming else self._answers(method))

    def _answers(self, method: MethodDescriptor) -> Any:
        async def answer(request: Message) -> Message:
            self.requests.append(request)
            return message_factory.GetMessageClass(method.output_type)()

        return answer

    def _streams(self, method: MethodDescriptor) -> Any:
        async def answers(request: Message) -> AsyncIterator[Message]:
            self.requests.append(request)
            yield message_factory.GetMessageClass(method.output_type)()

        return answers


@pytest.fixture
async def asked(world: World) -> dict[str, Asked]:
    found = {service: Asked(service) for service in PEER_SERVICES}
    world.stubs = dict(found)
    await world.start()
    return found


@dataclass(frozen=True)
class Door:
    """All services, as both doors call them."""

    methods: Sequence[tuple[MethodDescriptor, Any]]


@pytest.fixture
def door(world: World, asked: dict[str, Asked]) -> Door:
    pool, own = descriptor_pool.Default(), world.gateway.servicers.backends
    backends = {**{name: Scoped(stub, name, world.gateway.servicers.quotas) for name, stub in asked.items()}, **own}
    return Door(
        [
            (method, getattr(backend, method.name))
            for name, backend in backends.items()
            for method in pool.FindServiceByName(name).methods
            if rules(method) or name in own
        ]
    )


async def act_as(world: World, project: str, *scopes: Scope) -> str:
    """The secret of a key of the project; who calls from now on is its holder."""
    made = await world.gateway.keys.create("", project or "app", scopes or [Scope.ADMIN], project=project)
    set_caller(made.key)
    return made.secret


def naming(method: MethodDescriptor, path: list[str], text: str) -> Message:
    """A request that names a thing in one field, and the caller's own elsewhere."""
    request = message_factory.GetMessageClass(method.input_type)()
    for variable in rules(method)[0].variables[:1] if rules(method) else ():
        fill(request, variable.split("."), "acme~coder" if variable.endswith(("model", "name")) else f"run_{ULID}-acme")
    fill(request, path, text)
    return request


async def answer(method: MethodDescriptor, call: Any, request: Message) -> object:
    try:
        if method.server_streaming:
            return [str(reply) async for reply in call(request)]
        return str(await call(request))
    except RatchetError as error:
        return type(error), error.message
    except grpc.RpcError as error:
        return str(error)


async def test_what_is_anothers_is_answered_as_what_is_not_there(
    world: World, door: Door, asked: dict[str, Asked]
) -> None:
    await act_as(world, "acme")
    attempts = 0
    for (method, call), (theirs, nobodys) in itertools.product(door.methods, NOT_THERE.items()):
        for path in text_fields(method.input_type, LABELS):
            found = await answer(method, call, naming(method, path, theirs))
            missing = await answer(method, call, naming(method, path, nobodys))
            assert isinstance(found, tuple), (method.full_name, path, found)
            assert found[0] in (NotFound, PermissionDenied), (method.full_name, path, found)
            assert missing == (found[0], found[1].replace(theirs, nobodys)), (method.full_name, path)
            attempts += 1
    assert attempts >= 1000
    assert not [request for one in asked.values() for request in one.requests], "a service was asked"


async def test_what_is_ones_own_is_reached(world: World, door: Door) -> None:
    await act_as(world, "acme")
    for method, call in door.methods:
        for path in text_fields(method.input_type, LABELS):
            if path[-1] in PLACES or method.full_name.startswith("ratchet.gateway"):
                continue
            request = naming(method, path, "acme~coder" if "id" not in path[-1] else f"run_{ULID}-acme")
            for own in OWN.get(method.name, ()):
                fill(request, own.split("."), "acme~coder")
            if method.name not in OPERATORS:
                assert not isinstance(await answer(method, call, request), tuple), (method.full_name, path)


OPERATORS = {"GetCluster", "ListNodes", "DrainNode", "ResumeNode", "ListPolicies"}
"""RPCs about the platform itself: for its operator."""


def test_every_rpc_says_what_a_project_may_ask(door: Door) -> None:
    """A new one without a rule is refused to projects: give it a place in scoped.SHARED or OWN, or in OPERATORS."""
    names = {method.name for method, _ in door.methods}
    bare = {method.name for method, _ in door.methods if not (rules(method) and rules(method)[0].variables)}
    assert bare - OWN.keys() == OPERATORS & bare
    assert names > SHARED | OWN.keys() | OPERATORS
    for method, _ in door.methods:
        fields = {".".join(path) for path in text_fields(method.input_type, LABELS)}
        assert fields.issuperset(OWN.get(method.name, ())), method.name
        for variable in rules(method)[0].variables[:1] if rules(method) else ():
            assert variable in fields, (method.name, variable)


async def test_what_is_shared_is_read_and_not_changed(world: World, door: Door) -> None:
    await act_as(world, "acme")
    for method, call in door.methods:
        variables = rules(method)[0].variables if rules(method) else ()
        if variables and variables[0].rpartition(".")[2] in ("model", "name"):
            found = await answer(method, call, naming(method, variables[0].split("."), "starter"))
            refused = isinstance(found, tuple) and found[0] is PermissionDenied
            assert refused != (method.name in SHARED), (method.name, found)


@pytest.mark.parametrize("path", ["/etc", "s3://models/beta~coder", "./mine"])
async def test_a_folder_or_a_url_is_for_the_operator_to_name(world: World, path: str) -> None:
    secret = await act_as(world, "acme")
    body = {"source_uri": path}
    async with as_key(world, secret) as http:
        reply = await http.post("/api/v1/models/acme~coder/versions", json=body)
        run = await http.post("/api/v1/runs", json={"spec": {"base": {"uri": path}}})
    assert {reply.status_code, run.status_code} <= {403, 404}


@pytest.mark.parametrize("name", ["problems/beta.jsonl", "/srv/x.parquet", "~/x.json", "./x", "a/b/c", "Problems/X"])
async def test_a_file_of_problems_is_for_the_operator_to_name(world: World, asked: dict[str, Asked], name: str) -> None:
    secret = await act_as(world, "acme")
    for field in ("problems", "validation_problems", "pairs", "examples"):
        async with as_key(world, secret) as http:
            run = await http.post("/api/v1/runs", json={"spec": {"output_model": "acme~coder", field: {"name": name}}})
        assert run.status_code == 403, (field, run.text)
    async with as_key(world, secret) as http:
        measured = await http.post("/api/v1/evaluations", json={"spec": {"suite": [{"problems": {"name": name}}]}})
    assert measured.status_code == 403
    assert not [request for one in asked.values() for request in one.requests], "a service was asked"


@pytest.mark.parametrize("name", ["acme~mine@1/train", "mine", "composed/test", "humaneval+", "mbpp+@v0.2.0", "basics"])
async def test_names_of_sets_are_no_files(world: World, asked: dict[str, Asked], name: str) -> None:
    secret = await act_as(world, "acme")
    async with as_key(world, secret) as http:
        measured = await http.post("/api/v1/evaluations", json={"spec": {"problems": {"name": name}}})
    assert measured.status_code == 200, measured.text


async def test_a_folder_is_refused_wherever_else_its_text_stands(world: World, asked: dict[str, Asked]) -> None:
    secret = await act_as(world, "acme")
    spec = {"base": {"uri": "/srv/model"}, "output_model": "acme~coder", "tracker_project": "/srv/model"}
    async with as_key(world, secret) as http:
        assert (await http.post("/api/v1/runs", json={"spec": spec})).status_code == 403


async def test_an_error_names_nothing_of_anothers(world: World, asked: dict[str, Asked]) -> None:
    said = f"beta~mine is used by run_{ULID}-beta, and acme~mine by run_{ULID}-acme"
    trainer: Any = asked["ratchet.trainer.v1.TrainerService"]

    async def get(request: Message) -> Message:
        raise InvalidArgument(said, [FieldViolation("spec.problems", said)])

    async def watch(request: Message) -> AsyncIterator[Message]:
        yield trainer_pb2.WatchRunResponse()
        raise FailedPrecondition(said)

    trainer.GetRun, trainer.WatchRun = get, watch
    await world.start()
    secret = await act_as(world, "acme")
    async with as_key(world, secret) as http:
        found = (await http.get(f"/api/v1/runs/run_{ULID}-acme")).text
        events = (await http.get(f"/api/v1/runs/run_{ULID}-acme/watch")).text
    for text in (found, events):
        assert "beta" not in text
        assert f"another project's is used by another project's, and acme~mine by run_{ULID}-acme" in text


async def test_a_key_without_a_project_sees_what_is_the_platforms_and_its_operator_all(
    world: World, door: Door, asked: dict[str, Asked]
) -> None:
    called = {method.name: (method, call) for method, call in door.methods}
    method, call = called["GetRun"]
    views = (("", Scope.READ, {""}), ("", Scope.ADMIN, {"", "-beta"}), ("beta", Scope.READ, {"-beta"}))
    for project, scope, seen in views:
        await act_as(world, project, scope)
        for mark in ("", "-beta"):
            found = await answer(method, call, naming(method, ["id"], f"run_{ULID}{mark}"))
            assert isinstance(found, str) == (mark in seen), (project, scope, mark)


async def test_what_an_operator_makes_for_a_project_is_the_projects(world: World, asked: dict[str, Asked]) -> None:
    acted = []
    trainer: Any = asked["ratchet.trainer.v1.TrainerService"]
    create = trainer.CreateRun

    async def noted(request: Message) -> Message:
        acted.append(projects.current())
        found: Message = await create(request)
        return found

    trainer.CreateRun = noted
    await world.start()
    async with world.http() as http:
        for model in ("starter", "acme~coder"):
            assert (await http.post("/api/v1/runs", json={"spec": {"output_model": model}})).status_code == 200
    assert acted == ["default", "acme"]


async def test_a_reply_names_nothing_of_anothers(world: World, asked: dict[str, Asked]) -> None:
    waits = f"waits for run_{ULID}-beta of beta~coder@2, and then for run_{ULID}-acme"
    trainer: Any = asked["ratchet.trainer.v1.TrainerService"]
    run = trainer_pb2.Run(id=f"run_{ULID}-acme", waits_for=waits, preempted_by=f"run_{ULID}")

    async def get(request: Message) -> Message:
        return trainer_pb2.GetRunResponse(run=run)

    async def watch(request: Message) -> AsyncIterator[Message]:
        yield trainer_pb2.WatchRunResponse(run=run)

    trainer.GetRun, trainer.WatchRun = get, watch
    await world.start()
    secret = await act_as(world, "acme")
    async with as_key(world, secret) as http:
        found = (await http.get(f"/api/v1/runs/run_{ULID}-acme")).json()["run"]
        events = (await http.get(f"/api/v1/runs/run_{ULID}-acme/watch")).text
    others = "another project's"
    assert found["waits_for"] == f"waits for {others} of {others}, and then for run_{ULID}-acme"
    assert found["preempted_by"] == "the platform's"
    assert "beta" not in events


async def test_a_version_of_the_platforms_is_seen_without_its_place(world: World, asked: dict[str, Asked]) -> None:
    registry: Any = asked["ratchet.registry.v1.RegistryService"]

    async def get(request: registry_pb2.GetVersionRequest) -> registry_pb2.GetVersionResponse:
        mark = "-acme" if request.model.startswith("acme~") else ""
        place = f"/artifacts/{request.model}/art_{ULID}{mark}"
        return registry_pb2.GetVersionResponse(version=registry_pb2.Version(artifact_uri=place, policy_id="sha256:1"))

    registry.GetVersion = get
    await world.start()
    async with as_key(world, await act_as(world, "acme")) as http:
        for model, place in (("starter", ""), ("acme~coder", f"/artifacts/acme~coder/art_{ULID}-acme")):
            found = (await http.get(f"/api/v1/models/{model}/versions/1")).json()["version"]
            assert (found["artifact_uri"], found["policy_id"]) == (place, "sha256:1")


async def test_every_door_of_completions_answers_the_same_for_anothers_model(world: World) -> None:
    world.registry.versions["beta~coder"] = 1
    world.registry.aliases["beta~coder", "champion"] = 1
    await world.start()
    secret = await act_as(world, "acme")
    bodies = {
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
        "/v1/completions": {"prompt": "hi"},
        "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5},
        "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "hi"}]},
        "/v1/responses": {"input": "hi"},
        "/generate": {"prompt": "hi"},
    }
    async with as_key(world, secret) as http:
        for path, body in bodies.items():
            for there, not_there in (("beta~coder", "beta~nodel"), ("beta~coder@1", "beta~nodel@1")):
                found = await http.post(path, json=body | {"model": there})
                missing = await http.post(path, json=body | {"model": not_there})
                assert found.status_code == missing.status_code == 404, (path, found.text)
                assert found.text == missing.text.replace("nodel", "coder")
        found, missing = await http.get("/v1/models/beta~coder"), await http.get("/v1/models/beta~nodel")
        assert found.status_code == missing.status_code == 404
        shared = await http.post("/generate", json={"model": "starter", "prompt": "hi"})
    assert shared.status_code == 200
    assert shared.json()["id"].endswith("-acme")


async def test_a_projects_administrator_manages_its_keys_alone(world: World) -> None:
    secret, others = await act_as(world, "acme"), await act_as(world, "beta")
    async with as_key(world, secret) as http:
        made = await http.post("/api/v1/keys", json={"name": "app", "scopes": ["SCOPE_READ"], "request_id": "r"})
        into = await http.post("/api/v1/keys", json={"name": "app", "project": "beta"})
        await http.delete(f"/api/v1/keys/{made.json()['key']['id']}")
        keys = (await http.get("/api/v1/keys")).json()["keys"]
        entries = (await http.get("/api/v1/audit")).json()["entries"]
    async with as_key(world, others) as http:
        again = await http.post("/api/v1/keys", json={"name": "app", "scopes": ["SCOPE_READ"], "request_id": "r"})
        theirs = (await http.get("/api/v1/keys")).json()["keys"]
    assert made.json()["key"]["project"] == again.json()["key"]["project"].replace("beta", "acme") == "acme"
    assert again.json()["secret"], "the request id of another project made no key of this one"
    assert into.status_code == 400
    assert {key["project"] for key in keys} == {"acme"}
    assert {key["project"] for key in theirs} == {"beta"}
    assert [entry["method"].partition(".")[2] for entry in entries] == ["RevokeKey", "CreateKey", "CreateKey"]


async def test_a_name_of_a_project_is_refused_where_it_is_none(world: World) -> None:
    async with world.http() as http:
        for name in ("Acme", "a-b", "twentyoneletterslong1", "default", "1a"):
            assert (await http.post("/api/v1/keys", json={"name": "x", "project": name})).status_code == 400, name


async def test_kept_traffic_is_its_projects(world: World) -> None:
    secrets = {}
    for project in ("acme", "beta"):
        made = await world.gateway.keys.create("", project, [Scope.ADMIN], keep_traffic=True, project=project)
        secrets[project] = made.secret
    ids = {}
    for project, secret in secrets.items():
        async with as_key(world, secret) as http:
            body = {"model": "starter", "prompt": "git diff main~1", "user": "bob"}
            ids[project] = (await http.post("/v1/completions", json=body)).json()["id"]
    await world.gateway.recorder.flush()
    async with as_key(world, secrets["acme"]) as http:
        listed = (await http.get("/api/v1/traffic", params={"model": "starter"})).json()["exchanges"]
        episodes = [await http.get(f"/api/v1/traffic/{one}/episode") for one in ids.values()]
        scored = await http.post("/api/v1/feedback", json={"completion_id": ids["beta"], "score": 1})
        forgot = (await http.post("/api/v1/traffic/forget", json={"user": "bob"})).json()["removed"]
        health = await http.get("/api/v1/models/starter/versions/1/health")
        count = await http.get("/api/v1/models/starter/feedback")
    async with as_key(world, secrets["beta"]) as http:
        left = (await http.get("/api/v1/traffic", params={"model": "starter"})).json()["exchanges"]
    assert [one["id"] for one in listed] == [ids["acme"]]
    assert [one.status_code for one in episodes] == [200, 404]
    (call,) = episodes[0].json()["session"]["calls"]
    assert call["messages"][0]["content"] == "git diff main~1", "no name of a project"
    assert scored.status_code == 404
    assert int(forgot) == 1
    assert [one["id"] for one in left] == [ids["beta"]]
    assert health.status_code == count.status_code == 403, "they count what other projects asked of a shared model"


async def test_what_was_said_in_an_episode_stays_as_it_is(world: World) -> None:
    await act_as(world, "acme")
    for field in map(descriptor_pool.Default().FindFieldByName, EPISODES):
        reply = message_factory.GetMessageClass(field.containing_type)()
        getattr(reply, field.name)["calls"] = [{"content": "git diff main~1"}]
        assert "git diff main~1" in str(hidden(reply))


async def test_high_priority_is_for_the_operator(world: World) -> None:
    secret = await act_as(world, "acme")
    async with as_key(world, secret) as http:
        batch = await http.post("/api/v1/batches", json={"priority": "PRIORITY_HIGH"})
        spec = {"output_model": "acme~coder", "priority": "PRIORITY_HIGH"}
        run = await http.post("/api/v1/runs", json={"spec": spec})
    assert batch.status_code == run.status_code == 403, "it takes the place of other projects' work"


def as_key(world: World, secret: str) -> httpx.AsyncClient:
    http = world.http()
    http.headers["authorization"] = f"Bearer {secret}"
    return http
