"""A turn over a platform in memory: how it ends, and that it goes on wherever it was cut off."""

from typing import Any

import pytest

from ratchet.common.v1 import problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.gateway.v1 import release_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import ApiError, Unreachable
from ratchet_workflows.errors import WorkflowError
from ratchet_workflows.turns import turn as module
from ratchet_workflows.turns.plan import Plan
from ratchet_workflows.turns.records import Record, State
from ratchet_workflows.turns.turn import Turn

from ..memory import MemoryKept
from .platform import EVALUATION, GATE, RELEASE, RUN, Killed, Platform, specs

PLAN = Plan(
    "starter",
    trainer_pb2.RunSpec(steps=4),
    eval_pb2.EvaluationSpec(problems=problem_pb2.ProblemSetRef(name="composed/test")),
    registry_pb2.CreateGateRequest(),
    release_pb2.ReleaseSpec(),
)


@pytest.fixture
def kept() -> MemoryKept:
    return MemoryKept()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.0)


def finish(platform: Any, kept: MemoryKept) -> Record:
    """The turn that is kept, or a new one."""
    saved = kept.read() or {"number": 1, "model": "starter", "champion": 1, "base": 1}
    return Turn(platform, PLAN, kept, Record.of_json(saved), progress=kept.progress).finish()


def record_of(kept: MemoryKept) -> Record:
    return Record.of_json(kept.read())


def test_it_ends_in_a_released_version(kept: MemoryKept) -> None:
    platform = Platform()
    record = finish(platform, kept)
    assert record == record_of(kept)
    assert (record.state, record.candidate, platform.champion) == (State.RELEASED, 2, 2)
    assert record.sentence == "starter@2 is released: it is the champion, as starter@1 was. Passed: it gained."
    made = specs(platform)
    assert list(made) == ["evaluate-1-0", "train", "evaluate-2-0", "gate-1-0", f"release-{record.gate}-0"]
    assert made["train"].spec.base.version.number == 1
    assert [made[f"evaluate-{n}-0"].spec.model.version.number for n in (1, 2)] == [1, 2]
    assert (record.run, record.release) == (made["train"].id, made[f"release-{record.gate}-0"].id)
    assert [line for line in kept.lines if line.startswith("==")] == [
        "== measure starter@1",
        "== train 4 steps",
        "== measure starter@2",
        "== gate",
        "== release starter@2",
    ]


CALLS = 12


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_any_call_it_goes_on_and_makes_nothing_twice(when: str) -> None:
    whole = Platform()
    finish(whole, MemoryKept())
    assert len(whole.calls) == CALLS, whole.calls
    for call in range(1, CALLS + 1):
        platform, kept = Platform(), MemoryKept()
        setattr(platform, f"kill_{when}", call)
        with pytest.raises(Killed):
            finish(platform, kept)
        record = finish(platform, kept)
        assert (record.number, record.state, platform.champion) == (1, State.RELEASED, 2), call
        counts = [platform.count(kind) for kind in (RUN, EVALUATION, GATE, RELEASE)]
        assert counts == [1, 2, 1, 1], f"killed {when} call {call}, {whole.calls[call - 1]}"


def test_a_gate_that_refuses_ends_it_and_says_by_how_much(kept: MemoryKept) -> None:
    platform = Platform(gate=[GATE.STATE_REFUSED])
    record = finish(platform, kept)
    assert (record.state, record.release, platform.champion) == (State.REFUSED, "", 1)
    assert record.sentence.startswith("starter@2 is not released. Refused: starter@2 has 0.400")
    assert record.sentence.endswith("The lower end of the interval is 0.200 too low.")


def test_a_release_that_is_rolled_back_ends_it_and_says_the_reason(kept: MemoryKept) -> None:
    record = finish(Platform(release=[RELEASE.STATE_ROLLED_BACK]), kept)
    assert record.state == State.ROLLED_BACK
    assert "was rolled back at 5 %: 3 of 10 requests failed." in record.sentence


def test_a_run_that_failed_is_resumed_by_the_next_start(kept: MemoryKept) -> None:
    platform = Platform(run=[RUN.STATE_FAILED, RUN.STATE_SUCCEEDED])
    with pytest.raises(WorkflowError, match="the disk is full"):
        finish(platform, kept)
    failed = record_of(kept)
    record = finish(platform, kept)
    assert (record.state, record.run) == (State.RELEASED, failed.run)
    assert specs(platform)["train"].resumes == 1


@pytest.mark.parametrize(
    ("kind", "failed", "then", "names"),
    [
        ("evaluation", EVALUATION.STATE_FAILED, EVALUATION.STATE_SUCCEEDED, ("evaluate-1-0", "evaluate-1-1")),
        ("evaluation", EVALUATION.STATE_CANCELLED, EVALUATION.STATE_SUCCEEDED, ("evaluate-1-0", "evaluate-1-1")),
        ("gate", GATE.STATE_FAILED, GATE.STATE_PASSED, ("gate-1-0", "gate-1-1")),
        ("release", RELEASE.STATE_FAILED, RELEASE.STATE_SUCCEEDED, ()),
    ],
)
def test_what_else_failed_is_made_again(kept: MemoryKept, kind: str, failed: int, then: int, names: tuple[str]) -> None:
    platform = Platform(**{kind: [failed, then]})
    with pytest.raises(WorkflowError):
        finish(platform, kept)
    assert finish(platform, kept).state == State.RELEASED
    assert set(names) <= set(specs(platform))
    assert platform.count(RELEASE) == (2 if kind == "release" else 1)


def test_who_became_champion_meanwhile_must_be_beaten(kept: MemoryKept) -> None:
    """Once while it trains, and once between gate and release."""
    platform = Platform()
    watch, wait = platform.runs.watch, platform.models.wait_gate

    def while_training(id: str) -> Any:
        platform.champion = 7
        return watch(id)

    def after_the_gate(id: str) -> Any:
        platform.champion = 8
        return wait(id)

    platform.runs.watch, platform.models.wait_gate = while_training, after_the_gate
    record = finish(platform, kept)
    made = specs(platform)
    assert {"evaluate-1-0", "evaluate-7-0", "evaluate-8-0", "gate-7-0", "gate-8-0"} <= set(made)
    assert made["gate-8-0"].champion_evaluation_id == made["evaluate-8-0"].id
    assert (record.state, record.base, record.champion) == (State.RELEASED, 1, 8)


def test_a_platform_that_is_away_for_a_while_is_waited_for(kept: MemoryKept) -> None:
    platform = Platform()
    platform.away = 3
    assert finish(platform, kept).state == State.RELEASED
    assert any("It is tried again." in line for line in kept.lines)


def test_a_platform_that_stays_away_ends_the_command_and_not_the_turn(
    kept: MemoryKept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", -1.0)
    platform = Platform()
    platform.away = 1
    with pytest.raises(Unreachable):
        finish(platform, kept)
    assert finish(platform, kept).state == State.RELEASED


def test_a_create_that_is_refused_is_no_failure_of_the_turn(kept: MemoryKept) -> None:
    platform = Platform()
    platform.refusals["release"] = ApiError(412, "FAILED_PRECONDITION", "release rel_1 of model starter is under way")
    with pytest.raises(ApiError, match="under way"):
        finish(platform, kept)
    assert finish(platform, kept).state == State.RELEASED
