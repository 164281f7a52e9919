"""Client and AsyncClient against a real HTTP server: what they send, and what they make of the answers."""

import socket
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import pytest

from ratchet.common.v1 import model_pb2
from ratchet.gateway.v1 import release_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import ApiError, AsyncClient, Client, Completion, Unreachable
from ratchet_testing.gateway import ScriptedGateway

STARTER_1 = model_pb2.ModelRef(version=model_pb2.VersionRef(model="starter", number=1))
RUN = {"run": {"id": "run_1", "state": "STATE_QUEUED", "a_field_of_tomorrow": 1}}


@pytest.fixture
def client(gateway: ScriptedGateway) -> Iterator[Client]:
    with Client(gateway.url, "rk_key") as client:
        yield client


@pytest.fixture
async def async_client(gateway: ScriptedGateway) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(gateway.url, "rk_key") as client:
        yield client


def test_a_create_sends_the_message_with_a_request_id(client: Client, gateway: ScriptedGateway) -> None:
    gateway.answers(RUN, RUN)
    spec = trainer_pb2.RunSpec(steps=3, base=STARTER_1)
    run = client.runs.create(spec)
    assert (run.id, run.state) == ("run_1", trainer_pb2.Run.STATE_QUEUED)
    client.runs.create(spec, request_id="mine")
    first, second = gateway.received
    assert (first.verb, first.path, first.authorization) == ("POST", "/api/v1/runs", "Bearer rk_key")
    assert first.body["spec"] == {"steps": 3, "base": {"version": {"model": "starter", "number": 1}}}
    assert first.body["request_id"]
    assert second.body["request_id"] == "mine"


def test_fields_in_the_path_are_quoted_and_not_sent_twice(client: Client, gateway: ScriptedGateway) -> None:
    gateway.answers(RUN, {"model": {"name": "a+b"}}, {"gate": {"id": "gate_1"}}, {})
    client.runs.get("a+b c")
    client.models.set_alias("a+b", "champion", 2, expected_number=0, reason="better")
    client.models.create_gate(STARTER_1.version, "eval_2", "eval_1", request_id="mine")
    client.models.delete_version("starter", 1)
    get, put, post, delete = gateway.received
    assert get.path == "/api/v1/runs/a%2Bb%20c"
    assert (put.verb, put.path) == ("PUT", "/api/v1/models/a%2Bb/aliases/champion")
    assert put.body == {"number": 2, "expected_number": 0, "reason": "better"}
    assert post.path == "/api/v1/models/starter/gates"
    assert post.body == {
        "request_id": "mine",
        "candidate": {"number": 1},
        "candidate_evaluation_id": "eval_2",
        "champion_evaluation_id": "eval_1",
    }
    assert (delete.verb, delete.path, delete.body) == ("DELETE", "/api/v1/models/starter/versions/1", None)


def test_a_list_goes_through_all_pages_and_asks_only_for_those_that_are_used(
    client: Client, gateway: ScriptedGateway
) -> None:
    pages = [
        {"runs": [{"id": "run_3"}, {"id": "run_2"}], "next_page_token": "t1"},
        {"runs": [{"id": "run_1"}], "next_page_token": ""},
    ]
    gateway.answers(*pages)
    runs = client.runs.list(state=trainer_pb2.Run.STATE_FAILED)
    assert next(runs).id == "run_3"
    assert len(gateway.received) == 1
    assert [run.id for run in runs] == ["run_2", "run_1"]
    first, second = gateway.received
    assert first.query == {"page_size": "200", "state": "STATE_FAILED"}
    assert second.query == {"page_size": "200", "state": "STATE_FAILED", "page_token": "t1"}


def test_a_watch_gives_each_event_and_ends_with_the_stream(client: Client, gateway: ScriptedGateway) -> None:
    events = (("message", {"release": {"id": "rel_1", "percent": 1}}), ("message", {"release": {"percent": 100}}))
    gateway.streams(*events)
    assert [release.percent for release in client.releases.watch("rel_1")] == [1, 100]


def test_waiting_gives_what_it_ended_as(client: Client, gateway: ScriptedGateway) -> None:
    gateway.streams(("message", RUN), ("message", {"run": {"id": "run_1", "state": "STATE_SUCCEEDED"}}))
    assert client.runs.wait("run_1").state == trainer_pb2.Run.STATE_SUCCEEDED
    gateway.streams()
    with pytest.raises(Unreachable, match="before its first item"):
        client.models.wait_gate("gate_1")


def test_a_watch_that_fails_midway_raises(client: Client, gateway: ScriptedGateway) -> None:
    failure = {"error": {"code": "UNAVAILABLE", "message": "the trainer has gone"}}
    gateway.streams(("message", RUN), ("error", failure))
    watched = client.runs.watch("run_1")
    assert next(watched).run.id == "run_1"
    with pytest.raises(ApiError, match="the trainer has gone") as raised:
        next(watched)
    assert raised.value.code == "UNAVAILABLE"


def test_a_refusal_names_its_code_and_every_field(client: Client, gateway: ScriptedGateway) -> None:
    violations = [{"field": "spec.steps", "description": "must be at least 1"}]
    error = {"code": "INVALID_ARGUMENT", "message": "the spec is at fault", "violations": violations}
    gateway.answers({"error": error}, {"error": error}, status=400)
    with pytest.raises(ApiError) as raised:
        client.runs.create(trainer_pb2.RunSpec())
    refusal = raised.value
    assert (refusal.status, refusal.code, refusal.violations) == (400, "INVALID_ARGUMENT", tuple(violations))
    assert "spec.steps: must be at least 1" in str(raised.value)
    with pytest.raises(ApiError):
        next(client.runs.watch("run_1"))


@pytest.mark.parametrize("content", [b"<html>hello</html>", b"[1]", b'"text"'])
def test_what_is_no_gateway_is_said_to_be_none(client: Client, gateway: ScriptedGateway, content: bytes) -> None:
    gateway.answers(content)
    gateway.answers(content, status=502)
    with pytest.raises(ApiError, match="does not answer as a gateway"):
        client.runs.get("run_1")
    with pytest.raises(ApiError, match="HTTP 502"):
        client.runs.get("run_1")


def test_scored_answers_are_counted(client: Client, gateway: ScriptedGateway) -> None:
    gateway.answers({"scored": "7"}, {})
    assert client.count_feedback("starter", datetime(2026, 11, 1, tzinfo=UTC)) == 7
    assert client.count_feedback("starter") == 0
    first, second = gateway.received
    assert (first.path, first.query) == ("/api/v1/models/starter/feedback", {"after_time": "2026-11-01T00:00:00Z"})
    assert second.query == {}


def test_chat_and_feedback(client: Client, gateway: ScriptedGateway) -> None:
    gateway.answers(
        {"id": "c1", "model": "starter@2", "choices": [{"message": {"content": "def f(): ..."}}]},
        {"score": 1.0},
        {"score": 0.5},
    )
    assert client.chat("starter", "hi", routing_key="u") == Completion("c1", "def f(): ...", "starter@2")
    assert client.feedback("c1", score=1.0) == 1.0
    assert client.feedback("c1", problem_set="basics", problem_id="p") == 0.5
    chat, scored, graded = gateway.received
    assert chat.path == "/v1/chat/completions"
    assert (chat.body["user"], chat.body["messages"]) == ("u", [{"role": "user", "content": "hi"}])
    assert "max_tokens" not in chat.body, "all that the model has room for"
    assert scored.body.pop("request_id") != graded.body.pop("request_id")
    assert scored.body == {"completion_id": "c1", "score": 1.0}
    assert graded.body == {"completion_id": "c1", "problem": {"problem_set": "basics", "problem_id": "p"}}


def test_nothing_answers() -> None:
    with Client("http://127.0.0.1:1") as client:
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
            client.runs.get("run_1")
        with pytest.raises(Unreachable):
            next(client.runs.watch("run_1"))


def test_what_has_no_answer_may_have_been_done() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with Client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.2) as client:
            with pytest.raises(Unreachable, match="may have been done"):
                client.runs.create(trainer_pb2.RunSpec())
            with pytest.raises(Unreachable, match="Is the platform up"):
                client.runs.get("run_1")


async def test_the_asynchronous_client_has_the_same_methods(
    async_client: AsyncClient, gateway: ScriptedGateway
) -> None:
    gateway.answers(RUN, {"runs": [{"id": "run_3"}], "next_page_token": "t1"}, {"runs": [{"id": "run_1"}]})
    gateway.streams(("message", RUN))
    gateway.streams(("message", RUN))
    gateway.answers({"score": 1.0})
    assert (await async_client.runs.get("run_1")).id == "run_1"
    assert [run.id async for run in async_client.runs.list()] == ["run_3", "run_1"]
    assert [message.run.id async for message in async_client.runs.watch("run_1")] == ["run_1"]
    assert (await async_client.runs.wait("run_1")).id == "run_1"
    assert await async_client.feedback("c1", score=1.0) == 1.0
    assert [request.verb for request in gateway.received] == ["GET", "GET", "GET", "GET", "GET", "POST"]


async def test_its_errors_are_the_same(async_client: AsyncClient, gateway: ScriptedGateway) -> None:
    gateway.answers(*[{"error": {"code": "NOT_FOUND", "message": "no such run"}}] * 2, status=404)
    with pytest.raises(ApiError, match="no such run"):
        await async_client.runs.get("run_1")
    with pytest.raises(ApiError, match="no such run"):
        await anext(async_client.runs.watch("run_1"))
    async with AsyncClient("http://127.0.0.1:1") as nobody:
        with pytest.raises(Unreachable):
            await nobody.releases.create(release_pb2.ReleaseSpec())


def test_a_fault_that_the_message_names_is_not_said_again() -> None:
    violations = [{"field": "spec.steps", "description": "must be 1 or more"}]
    error = ApiError(400, "INVALID_ARGUMENT", "spec.steps must be 1 or more", violations)
    assert str(error) == "spec.steps must be 1 or more"
    assert error.violations == tuple(violations)
