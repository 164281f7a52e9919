"""/api/v1: protobuf as JSON, errors, keys, watching, OpenAPI."""

import importlib
import json
import pkgutil
import re
import sys

import pytest
from google.protobuf.descriptor import MethodDescriptor

import ratchet
from gateway_service.domain.keys.key import Scope
from ratchet.common.v1 import access_pb2, model_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.sandbox.v1 import program_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit import errors, grpc_errors
from ratchet_protos.http import required_scope, rules
from ratchet_sessions.doors.errors import MEANINGS

from ..world import NoStub, World


class Trainer(NoStub):
    """Keeps its requests."""

    def __init__(self) -> None:
        self.requests = []

    async def CreateRun(self, request):
        self.requests.append(request)
        if not request.spec.steps:
            raise errors.InvalidArgument("bad spec", [errors.FieldViolation("spec.steps", "must be positive")])
        return trainer_pb2.CreateRunResponse(run=trainer_pb2.Run(id="run_1", spec=request.spec, platform_faults=3))

    async def GetRun(self, request):
        if request.id == "away":
            raise errors.Unavailable("connections to all backends failing; last error: UNKNOWN: Connection refused")
        raise errors.NotFound(f"run {request.id} does not exist")

    async def ListRuns(self, request):
        self.requests.append(request)
        return trainer_pb2.ListRunsResponse(next_page_token="more")

    async def WatchRun(self, request):
        if request.id != "run_1":
            raise errors.NotFound(f"run {request.id} does not exist")
        for step in (1, 2):
            yield trainer_pb2.WatchRunResponse(run=trainer_pb2.Run(id="run_1", step=step))
        if request.after_step:
            raise errors.Unavailable("trainer went away")

    CancelRun = ResumeRun = DeleteRun = GetRun


class Registry(NoStub):
    async def GetVersion(self, request):
        which = request.WhichOneof("which")
        return registry_pb2.GetVersionResponse(
            version=registry_pb2.Version(
                ref=model_pb2.VersionRef(model=request.model, number=request.number), labels={"by": which}
            )
        )

    async def SetAlias(self, request):
        aliases = {request.alias: request.number}
        return registry_pb2.SetAliasResponse(model=registry_pb2.Model(name=request.model, aliases=aliases))

    async def CreateGate(self, request):
        return registry_pb2.CreateGateResponse(gate=registry_pb2.Gate(id="gate_1", candidate=request.candidate))

    async def DeleteVersion(self, request):
        if request.number == 1:
            raise errors.FailedPrecondition(f"{request.model}@1 is the champion")
        return registry_pb2.DeleteVersionResponse()


class Programs(NoStub):
    """Keeps its requests."""

    def __init__(self) -> None:
        self.requests = []

    async def Execute(self, request):
        self.requests.append(request)
        return program_pb2.ExecuteResponse(execution=program_pb2.Execution(stdout=request.program.stdin))

    Grade = GetCapabilities = Execute


@pytest.fixture
def trainer() -> Trainer:
    return Trainer()


@pytest.fixture
async def http(world: World, trainer):
    world.stubs |= {"ratchet.trainer.v1.TrainerService": trainer, "ratchet.registry.v1.RegistryService": Registry()}
    await world.start()
    async with world.http() as client:
        yield client


async def test_a_body_is_the_request_message(http, trainer) -> None:
    spec = {"base": {"version": {"model": "starter", "number": 1}}, "algorithm": "ALGORITHM_GRPO", "steps": 3}
    response = await http.post("/api/v1/runs", json={"request_id": "r", "spec": spec})
    assert response.status_code == 200
    run = response.json()["run"]
    assert (run["id"], run["spec"]["algorithm"], run["platform_faults"], run["step"]) == (
        "run_1",
        "ALGORITHM_GRPO",
        "3",
        0,
    )
    assert trainer.requests[0].spec.base.version.number == 1


async def test_names_the_service_that_does_not_answer(http) -> None:
    response = await http.get("/api/v1/runs/away")
    assert response.status_code == 503
    assert response.json()["error"]["message"] == "the trainer service does not answer: ratchet status says what runs"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"spec": {"banana": 1}}, "spec.banana"),
        ({"banana": 1}, "banana"),
        ({"spec": {"steps": "many"}}, "spec.steps"),
        ({"spec": {"hyperparameters": {"learning_rate": "fast"}}}, "spec.hyperparameters.learning_rate"),
        ({"spec": {"algorithm": "MAGIC"}}, "spec.algorithm"),
        ({"spec": 3}, "spec"),
        ({"spec": {"steps": 0}}, "spec.steps"),
    ],
)
async def test_names_the_field_at_fault(http, body, field) -> None:
    response = await http.post("/api/v1/runs", json=body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "INVALID_ARGUMENT"
    assert [violation["field"] for violation in error["violations"]] == [field]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (r'{"\ud800": 1}', "body"),
        (r'{"spec": {"\ud800": 1}}', "spec"),
        (r'{"spec": {"algorithm": "\ud800"}}', "spec.algorithm"),
        (r'{"spec": {"reward": {"components": [{"\udfff": 1}]}}}', "spec.reward.components"),
        ('{"spec": {"algorithm": 1e400}}', "body"),
        ('{"spec": {"hyperparameters": {"learning_rate": 1%s}}}' % ("0" * 400), "body"),
        ('{"spec": ""}', "spec"),
        ('{"spec": {"problems": ""}}', "spec.problems"),
        ('{"a":' * 900 + "1" + "}" * 900, "a"),
    ],
)
async def test_what_protobuf_fails_at_is_the_callers_fault(http, trainer, body: str, field: str) -> None:
    response = await http.post("/api/v1/runs", content=body)
    assert response.status_code == 400, response.text
    assert [violation["field"] for violation in response.json()["error"]["violations"]] == [field]
    assert not trainer.requests


@pytest.mark.parametrize("text", ["1_000", "+5", " 5", "5\n", "\u0665", "0x5", "007", "", "inf", "nan", "true"])
async def test_a_number_is_as_json_writes_it(http, trainer, text: str) -> None:
    hyperparameters = {"learning_rate": text}
    for body, field in (
        ({"spec": {"steps": text}}, "spec.steps"),
        ({"spec": {"algorithm": text}}, "spec.algorithm"),
        ({"spec": {"hyperparameters": hyperparameters}}, "spec.hyperparameters.learning_rate"),
        ({"spec": {"base": {"version": {"model": "starter", "number": text}}}}, "spec.base.version.number"),
    ):
        response = await http.post("/api/v1/runs", json=body)
        assert response.status_code == 400, body
        (violation,) = response.json()["error"]["violations"]
        assert violation["field"].split(".")[-1] == field.split(".")[-1]
    response = await http.get("/api/v1/runs", params={"page_size": text})
    assert (response.status_code, response.json()["error"]["violations"][0]["field"]) == (400, "page_size")
    response = await http.get("/api/v1/runs", params={"state": text})
    assert (response.status_code, response.json()["error"]["violations"][0]["field"]) == (400, "state")
    assert not trainer.requests


@pytest.mark.parametrize(
    ("text", "number"), [("5", 5), ("-1", -1), ("1e1", 10), ("5.0", 5), ("2147483647", 2147483647)]
)
async def test_a_number_may_be_a_text(http, trainer, text: str, number: int) -> None:
    assert (await http.get("/api/v1/runs", params={"page_size": text})).status_code == 200
    assert trainer.requests[0].page_size == number


@pytest.mark.parametrize(
    "text", ["1_000s", "+5s", " 5s", "\u0665s", "1e3s", "5", "5S", "1.0000000001s", "1._5s", ".5s", "infs"]
)
async def test_a_length_of_time_is_seconds(http, text: str) -> None:
    spec = {"candidate": {"model": "starter", "number": 2}, "stages": [{"percent": 100, "min_duration": text}]}
    response = await http.post("/api/v1/releases", json={"spec": spec})
    assert response.status_code == 400
    assert [one["field"] for one in response.json()["error"]["violations"]] == ["spec.stages.min_duration"]


@pytest.mark.parametrize(
    "text", ["2030-01-01T00:00:0\u0665Z", "2030-1-1T0:0:0Z", "2030-01-01T00:00:00+0_1:00", "2030-01-01T00:00:00.1_0Z"]
)
async def test_a_time_is_as_rfc_3339_writes_it(http, text: str) -> None:
    response = await http.post("/api/v1/keys", json={"name": "app", "expire_time": text})
    assert response.status_code == 400
    assert [one["field"] for one in response.json()["error"]["violations"]] == ["expire_time"]


@pytest.mark.parametrize("content", ["{", "[1]", "3", '{"page_size": NaN}', '{"spec": {"steps": Infinity}}'])
async def test_a_body_that_is_no_object(http, content) -> None:
    response = await http.post("/api/v1/runs", content=content)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID_ARGUMENT")


async def test_paging_and_filters_are_the_query(http, trainer) -> None:
    response = await http.get("/api/v1/runs?page_size=7&page_token=t&state=STATE_RUNNING")
    assert response.json() == {"runs": [], "next_page_token": "more"}
    assert trainer.requests[0] == trainer_pb2.ListRunsRequest(page_size=7, page_token="t", state=3)
    assert (await http.get("/api/v1/runs?colour=red")).json()["error"]["violations"][0]["field"] == "colour"


async def test_the_path_is_part_of_the_message(http) -> None:
    version = (await http.get("/api/v1/models/starter/versions/2")).json()["version"]
    assert (version["ref"], version["labels"]) == ({"model": "starter", "number": 2}, {"by": "number"})
    by_alias = (await http.get("/api/v1/models/starter/aliases/champion")).json()["version"]
    assert by_alias["labels"] == {"by": "alias"}
    model = (await http.put("/api/v1/models/starter/aliases/champion", json={"number": 2})).json()["model"]
    assert (model["name"], model["aliases"]) == ("starter", {"champion": 2})
    contradiction = await http.put("/api/v1/models/starter/aliases/champion", json={"number": 2, "model": "other"})
    assert contradiction.json()["error"]["violations"][0]["field"] == "model"


async def test_the_path_may_hold_a_field_of_a_field(http) -> None:
    made = await http.post("/api/v1/models/starter/gates", json={"candidate": {"number": 2}})
    assert made.json()["gate"]["candidate"] == {"model": "starter", "number": 2}
    alone = await http.post("/api/v1/models/starter/gates")
    assert alone.json()["gate"]["candidate"] == {"model": "starter", "number": 0}
    for candidate, field in (({"model": "other"}, "candidate.model"), (3, "candidate.model")):
        refused = await http.post("/api/v1/models/starter/gates", json={"candidate": candidate})
        assert refused.json()["error"]["violations"][0]["field"] == field


async def test_deletes(http) -> None:
    assert (await http.delete("/api/v1/models/starter/versions/2")).json() == {}
    refused = await http.delete("/api/v1/models/starter/versions/1")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "FAILED_PRECONDITION")


async def test_errors_of_services_keep_their_meaning(http) -> None:
    response = await http.get("/api/v1/runs/run_9")
    assert response.status_code == 404
    assert response.json() == {"error": {"code": "NOT_FOUND", "message": "run run_9 does not exist"}}
    assert (await http.get("/api/v1/nothing")).json()["error"]["code"] == "NOT_FOUND"
    assert (await http.patch("/api/v1/runs")).status_code == 405


def test_every_error_has_a_status() -> None:
    assert set(MEANINGS) == set(grpc_errors.CODES)
    ours = {error for error, meaning in MEANINGS.items() if meaning.status >= 500}
    assert ours == {errors.Internal, errors.DataLoss, errors.Unavailable, errors.DeadlineExceeded}


async def test_an_unexpected_error_tells_nothing(http) -> None:
    response = await http.get("/api/v1/evaluations")  # its backend is None: a bug
    assert response.status_code == 500
    assert response.json() == {"error": {"code": "INTERNAL", "message": "internal error"}}


def events(text: str) -> list[tuple[str, dict]]:
    found = []
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((lines.get("event", "message"), json.loads(lines["data"])))
    return found


async def test_watch_is_server_sent_events(http) -> None:
    response = await http.get("/api/v1/runs/run_1/watch")
    assert [(kind, data["run"]["step"]) for kind, data in events(response.text)] == [("message", 1), ("message", 2)]
    broken = events((await http.get("/api/v1/runs/run_1/watch?after_step=1")).text)
    assert broken[-1] == ("error", {"error": {"code": "UNAVAILABLE", "message": "trainer went away"}})
    assert (await http.get("/api/v1/runs/run_9/watch")).status_code == 404


async def test_a_release_through_rest(world: World, http) -> None:
    spec = {
        "candidate": {"model": "starter", "number": 2},
        "gate_id": "gate_2",
        "stages": [{"percent": 100, "min_duration": "1.5s"}],
        "bounds": {"max_quality_drop": 0},
    }
    made = (await http.post("/api/v1/releases", json={"request_id": "r", "spec": spec})).json()["release"]
    assert (made["state"], made["baseline"]) == ("STATE_PREPARING", {"model": "starter", "number": 1})
    assert made["spec"]["stages"][0]["min_duration"] == "1.500s"
    bounds = {
        "max_error_rate_increase": 0.02,
        "max_latency_ratio": 1.5,
        "max_quality_drop": 0.0,
        "max_left_increase": 0.02,
    }
    assert made["spec"]["bounds"] == bounds
    assert "latency_p95" not in made["candidate_stats"]
    assert (await http.get(f"/api/v1/releases/{made['id']}")).json()["release"]["id"] == made["id"]
    assert len((await http.get("/api/v1/releases?model=starter")).json()["releases"]) == 1
    assert (made["spec"]["unproven"], made["spec"]["watch"]) == ("UNPROVEN_HOLD", "3600s")
    assert made["waits_for"] == "starter@2 is being loaded."
    for step in ("pause", "resume", "promote"):
        early = await http.post(f"/api/v1/releases/{made['id']}/{step}", json={"reason": "now"})
        assert (early.status_code, early.json()["error"]["code"]) == (409, "FAILED_PRECONDITION")
    for _ in range(2):
        back = await http.post(f"/api/v1/releases/{made['id']}/rollback", json={"reason": "no"})
        assert back.json()["release"]["state"] == "STATE_ROLLED_BACK"
    watched = events((await http.get(f"/api/v1/releases/{made['id']}/watch")).text)
    assert watched[0][1]["release"]["state"] == "STATE_ROLLED_BACK"
    reused = await http.post("/api/v1/releases", json={"request_id": "r", "spec": spec | {"gate_id": "other"}})
    assert (reused.status_code, reused.json()["error"]["code"]) == (409, "ALREADY_EXISTS")


async def test_feedback_through_rest(world: World, http) -> None:
    response = await world.ask()
    body = {"completion_id": response.id, "score": 0.5}
    assert (await http.post("/api/v1/feedback", json=body)).json() == {"score": 0.5}
    zero = await http.post("/api/v1/feedback", json={"completion_id": response.id, "score": 0})
    assert zero.json() == {"score": 0.0}
    neither = await http.post("/api/v1/feedback", json={"completion_id": response.id})
    assert neither.status_code == 400
    assert (await http.post("/api/v1/feedback", json={"completion_id": "none", "score": 1})).status_code == 404


async def test_keys(http) -> None:
    made = (await http.post("/api/v1/keys", json={"request_id": "r", "name": "app"})).json()
    assert made["key"]["scopes"] == ["SCOPE_INFERENCE"]
    again = (await http.post("/api/v1/keys", json={"request_id": "r", "name": "app"})).json()
    assert again == made | {"secret": ""}
    as_app = {"Authorization": f"Bearer {made['secret']}"}
    assert (await http.get("/v1/models", headers=as_app)).status_code == 200
    denied = await http.get("/api/v1/runs", headers=as_app)
    assert (denied.status_code, denied.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    listed = await http.get("/api/v1/keys")
    assert made["secret"] not in listed.text
    assert [key["name"] for key in listed.json()["keys"]] == ["app", "bootstrap"]
    assert (await http.delete(f"/api/v1/keys/{made['key']['id']}")).json()["key"]["revoke_time"]
    assert (await http.get("/v1/models", headers=as_app)).status_code == 401
    unknown = await http.post("/api/v1/keys", json={"name": "app", "role": "king"})
    assert unknown.json()["error"]["violations"][0]["field"] == "role"
    neither = await http.post("/api/v1/keys", json={"name": "app", "scopes": ["SCOPE_UNSPECIFIED"]})
    assert neither.json()["error"]["violations"][0]["field"] == "scopes"


def annotated() -> dict[tuple[str, str], MethodDescriptor]:
    """Every RPC of the project that its proto offers over HTTP, by verb and path."""
    for module in pkgutil.walk_packages(ratchet.__path__, "ratchet."):
        if module.name.endswith("_pb2"):
            importlib.import_module(module.name)
    files = {file.name: file for file in (module.DESCRIPTOR for module in sys.modules.values() if is_stub(module))}
    methods = [m for f in files.values() for service in f.services_by_name.values() for m in service.methods]
    return {(rule.verb, rule.path): method for method in methods for rule in rules(method)}


def is_stub(module: object) -> bool:
    return getattr(module, "__name__", "").startswith("ratchet.") and hasattr(module, "DESCRIPTOR")


def test_serves_each_rpc_with_a_route_and_no_other_route(world: World) -> None:
    served = {
        (verb.upper(), path): operation["operationId"]
        for path, operations in world.gateway.http.openapi()["paths"].items()
        for verb, operation in operations.items()
        if path.startswith("/api/")
    }
    routes = annotated()
    assert len(routes) > 40
    documented = {(verb, path.replace(".", "_")): method for (verb, path), method in routes.items()}
    assert served.keys() == documented.keys()
    assert all(served[route].startswith(method.name) for route, method in documented.items())


async def test_a_route_needs_the_scope_of_its_rpc(http) -> None:
    made = (await http.post("/api/v1/keys", json={"name": "app"})).json()
    as_app = {"Authorization": f"Bearer {made['secret']}"}
    for (verb, path), method in annotated().items():
        response = await http.request(verb, re.sub("[{}]", "", path), json={}, headers=as_app)
        is_open = required_scope(method) == access_pb2.SCOPE_INFERENCE
        assert (response.status_code != 403) == is_open, (verb, path)


async def test_without_a_key_only_the_open_routes(http) -> None:
    del http.headers["Authorization"]
    for path in ("/healthz", "/readyz", "/openapi.json", "/docs"):
        assert (await http.get(path)).status_code == 200
    schema = (await http.get("/openapi.json")).json()
    assert len(schema["paths"]) > 30
    for path, operations in schema["paths"].items():
        for verb in operations:
            if not path.startswith(("/healthz", "/readyz")):
                response = await http.request(verb, path.replace("{", "").replace("}", ""), json={})
                assert response.status_code == 401, (verb, path)
                assert response.headers["www-authenticate"] == "Bearer"


async def test_openapi_refers_to_real_schemas(http) -> None:
    schema = (await http.get("/openapi.json")).json()
    components = schema["components"]["schemas"]
    for reference in set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(schema))):
        assert reference.removeprefix("#/components/schemas/") in components
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            error = operation["responses"]["default"]["content"]["application/json"]["schema"]["$ref"]
            shape = "Anthropic" if path.startswith("/v1/messages") else "OpenAI" if path.startswith("/v1/") else ""
            assert error.endswith(f"/{shape}Error")
    run = components["trainer.v1.Run"]["properties"]
    assert run["create_time"] == {"type": "string", "format": "date-time"}
    assert "STATE_QUEUED" in run["state"]["enum"]
    assert components["registry.v1.Model"]["properties"]["aliases"]["additionalProperties"]["type"] == "integer"
    ids = [operation["operationId"] for operations in schema["paths"].values() for operation in operations.values()]
    assert len(ids) == len(set(ids))


async def test_every_answer_carries_its_request_id(http) -> None:
    assert (await http.get("/healthz")).headers["x-request-id"].startswith("req_")
    assert (await http.get("/healthz", headers={"x-request-id": "mine"})).headers["x-request-id"] == "mine"


async def test_a_key_for_programs_runs_them_under_its_own_name_and_no_more(world: World) -> None:
    sandbox = Programs()
    world.stubs |= {"ratchet.sandbox.v1.ProgramService": sandbox}
    await world.start()
    new = await world.gateway.keys.create("", "ci", [Scope.PROGRAMS])
    body = {"program": {"source": "print(input())", "stdin": "hi"}, "caller": "somebody", "priority": "PRIORITY_NORMAL"}
    async with world.http() as http:
        http.headers["authorization"] = f"Bearer {new.secret}"
        ran = await http.post("/api/v1/programs/execute", json=body)
        assert ran.json()["execution"]["stdout"] == "hi"
        urgent = await http.post("/api/v1/programs/execute", json=body | {"priority": "PRIORITY_HIGH"})
        assert (urgent.status_code, urgent.json()["error"]["message"]) == (
            403,
            "high priority is for keys of scope admin",
        )
        assert (await http.get("/api/v1/batches")).status_code == 403
        assert (await http.get("/api/v1/runs")).status_code == 403
    assert [request.caller for request in sandbox.requests] == [f"gateway/{new.key.id}"]
