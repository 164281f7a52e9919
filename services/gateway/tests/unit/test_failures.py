"""What failed lately, as one answer."""

from datetime import timedelta
from typing import Any

import pytest

from gateway_service.adapters.failures import EvaluationFailures, RunFailures, VersionFailures
from gateway_service.domain.failures import Failures, ReleaseFailures
from gateway_service.domain.releases.release import Release, ReleaseEvent, ReleaseSpec, State
from ratchet.eval.v1 import eval_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit.errors import Unavailable
from ratchet_kit.idempotency import Request
from ratchet_kit.names import VersionRef
from ratchet_kit.times import timestamp_to_proto
from ratchet_testing.clock import ManualClock

from ..memory import MemoryReleaseStore
from ..world import World


class Stub:
    """Answers any list request with one reply, and keeps the request."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply
        self.asked: Any = None

    def __getattr__(self, name: str) -> Any:
        async def call(request: Any) -> Any:
            self.asked = request
            return self.reply

        return call


class Away:
    async def latest(self, after_time: Any, limit: int) -> Any:
        raise Unavailable("no")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_each_failure_has_its_name_and_its_sentence_and_the_latest_is_first(clock: ManualClock) -> None:
    def failed(kind: Any, hours: int, **fields: Any) -> Any:
        ended = timestamp_to_proto(clock.now() - timedelta(hours=hours))
        return kind(failure={"message": f"{hours} hours ago"}, end_time=ended, **fields)

    run = failed(trainer_pb2.Run, 1, id="run_1", spec={"display_name": "night"})
    evaluation = failed(
        eval_pb2.Evaluation,
        3,
        id="eval_1",
        spec={"model": {"model": "starter"}, "problems": {"name": "basics"}},
        version={"model": "starter", "number": 2},
    )
    version = failed(registry_pb2.Version, 2, ref={"model": "mine", "number": 1}, source_uri="/models/mine")
    stubs = [
        Stub(trainer_pb2.ListRunsResponse(runs=[run])),
        Stub(eval_pb2.ListEvaluationsResponse(evaluations=[evaluation])),
        Stub(registry_pb2.ListVersionsResponse(versions=[version])),
    ]
    kinds = (RunFailures, EvaluationFailures, VersionFailures)
    sources = {kind.__name__: kind(stub) for kind, stub in zip(kinds, stubs, strict=True)}
    found = await Failures({**sources, "other": Away()}, clock).latest()
    assert [(one.id, one.name, one.message) for one in found.failures] == [
        ("run_1", "night", "1 hours ago"),
        ("mine@1", "/models/mine", "2 hours ago"),
        ("eval_1", "starter@2 on basics", "3 hours ago"),
    ]
    assert found.missing == ["other"]
    for stub in stubs:
        assert stub.asked.after_time == timestamp_to_proto(clock.now() - timedelta(days=7))
        assert type(stub.asked).__name__ == "ListRunsRequest" or stub.asked.state


async def test_releases_that_failed_or_were_rolled_back(clock: ManualClock) -> None:
    store = MemoryReleaseStore()
    event = ReleaseEvent(clock.now(), 0, "errors: 3 of 8")
    states = {"rel_1": State.FAILED, "rel_2": State.SUCCEEDED, "rel_3": State.ROLLED_BACK}
    for days, (id, state) in zip((9, 2, 1), states.items(), strict=True):
        spec = ReleaseSpec(VersionRef("starter", 2), "gate_1")
        created = clock.now() - timedelta(days=days)
        release = Release(id, spec, VersionRef("starter", 1), created, state, events=(event,), end_time=created)
        await store.create(release, Request.of(id))
    (found,) = (await Failures({"gateway": ReleaseFailures(store)}, clock).latest()).failures
    assert (found.id, found.name) == ("rel_3", "starter@2 in place of starter@1")
    assert found.message == "rolled back: errors: 3 of 8"


async def test_over_rest(world: World) -> None:
    async with world.http() as http:
        assert (await http.get("/api/v1/failures")).json() == {"failures": [], "missing": []}
        assert (await http.get("/api/v1/failures?after_time=yesterday")).status_code == 400
