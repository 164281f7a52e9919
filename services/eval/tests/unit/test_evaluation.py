"""The life of an evaluation: what may follow what, and who may do it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from eval_service.domain.evaluation import Evaluation, Pace, ResolvedModel, State
from eval_service.domain.score import Score
from eval_service.domain.spec import EvaluationSpec, Form, ProblemSetRef, SuiteEntry
from ratchet_kit.errors import Aborted, FailedPrecondition, Failure
from ratchet_kit.names import Location

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=30)
FAILURE = Failure("UNAVAILABLE", "no sandbox")
SPEC = EvaluationSpec(Location("/m"), (SuiteEntry(ProblemSetRef("basics")),))
SCORE = Score((), ())
QUEUED = Evaluation("eval_1", SPEC, ResolvedModel("/m"), NOW)
RUNNING = QUEUED.claim("a", NOW, LEASE)
ENDED = [
    RUNNING.succeed("a", SCORE, NOW),
    RUNNING.fail("a", FAILURE, NOW),
    RUNNING.cancel(NOW),
]


def test_a_claim_starts_it_and_counts() -> None:
    assert (RUNNING.state, RUNNING.attempts, RUNNING.start_time) == (State.RUNNING, 1, NOW)
    later = NOW + timedelta(minutes=1)
    again = RUNNING.claim("b", later, LEASE)
    assert (again.attempts, again.start_time) == (2, NOW)


def test_only_a_dead_workers_evaluation_may_be_taken() -> None:
    with pytest.raises(Aborted, match="is with a"):
        RUNNING.claim("b", NOW + LEASE - timedelta(seconds=1), LEASE)
    assert RUNNING.renew("a", NOW + LEASE, LEASE).hold.is_free(NOW + LEASE, "b") is False
    assert RUNNING.claim("a", NOW, LEASE).attempts == 2, "restarted under its old name"


def test_who_lost_it_changes_nothing_any_more() -> None:
    taken = RUNNING.claim("b", NOW + LEASE, LEASE)
    for change in (
        lambda: taken.renew("a", NOW, LEASE),
        lambda: taken.release("a", attempted=False),
        lambda: taken.load_problems("a", [("sha256:d", "v1")]),
        lambda: taken.measure("a", "sha256:p", "sha256:s", Form.CHAT),
        lambda: taken.succeed("a", SCORE, NOW),
        lambda: taken.fail("a", FAILURE, NOW),
    ):
        with pytest.raises(Aborted):
            change()


@pytest.mark.parametrize("ended", ENDED, ids=lambda evaluation: evaluation.state)
def test_what_has_ended_stays_as_it_is(ended: Evaluation) -> None:
    assert ended.state.ended
    assert (ended.hold.owner, ended.attempts, ended.end_time) == ("", 1, NOW)
    for change in (lambda: ended.claim("b", NOW, LEASE), lambda: ended.renew("a", NOW, LEASE)):
        with pytest.raises(FailedPrecondition, match=ended.state):
            change()


def test_cancel_is_refused_only_after_another_end() -> None:
    succeeded, failed, cancelled = ENDED
    assert QUEUED.cancel(NOW).state is State.CANCELLED
    assert cancelled.cancel(NOW + LEASE) == cancelled
    for ended in (succeeded, failed):
        with pytest.raises(FailedPrecondition):
            ended.cancel(NOW)


def test_giving_it_back_does_not_count_as_an_attempt() -> None:
    released = RUNNING.release("a", attempted=False)
    assert (released.attempts, released.hold.is_free(NOW, "b")) == (0, True)
    assert RUNNING.release("a", attempted=True).attempts == 1


def test_only_what_has_ended_is_deleted() -> None:
    for ended in ENDED:
        ended.check_deletable()
    for evaluation in (QUEUED, RUNNING):
        with pytest.raises(FailedPrecondition, match="cancel it"):
            evaluation.check_deletable()


def test_resumed_it_goes_on_with_the_same_weights_and_problems() -> None:
    begun = RUNNING.load_problems("a", [("sha256:d", "v1")]).measure("a", "sha256:p", "sha256:s", Form.COMPLETION)
    assert (begun.spec.digests, begun.expected_policy_id) == (("sha256:d",), "sha256:p")
    assert begun.spec.prompting.form is Form.COMPLETION
    assert begun.measure("a", "sha256:p", "sha256:s", Form.CHAT) == begun
    with pytest.raises(FailedPrecondition, match="sha256:q was loaded"):
        begun.measure("a", "sha256:q", "sha256:s", Form.CHAT)
    assert begun.settings_id == "sha256:s"
    with pytest.raises(FailedPrecondition, match="chat template are sha256:s, but sha256:t was loaded"):
        begun.measure("a", "sha256:p", "sha256:t", Form.CHAT)
    with pytest.raises(FailedPrecondition, match="changed"):
        begun.load_problems("a", [("sha256:e", "v1")])


def test_seeds_differ_by_sample_and_not_by_attempt() -> None:
    seeds = {QUEUED.seed_of(problem, index) for problem in ("a", "b") for index in range(10)}
    assert len(seeds) == 20
    assert QUEUED.seed_of("a", 0) == RUNNING.seed_of("a", 0)
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_the_end_is_expected_at_the_pace_of_the_present_worker() -> None:
    assert RUNNING.expected_end_time(5, 10, NOW) is None, "nothing to go by"
    begun = RUNNING.begin("a", Pace(NOW, 5))
    later = NOW + timedelta(minutes=2)
    assert begun.expected_end_time(5, 25, later) is None
    assert begun.expected_end_time(6, 404, later) is None, "one of 399 says nothing of the others"
    assert begun.expected_end_time(10, 25, NOW + timedelta(seconds=9)) is None
    assert begun.expected_end_time(10, 25, later) == later + timedelta(minutes=6)
    assert begun.cancel(later).expected_end_time(10, 25, later) is None


def test_samples_are_added_only_where_they_are_awaited() -> None:
    imported = replace(QUEUED, spec=replace(SPEC, model=None, imported_samples=3), model=None)
    imported.check_takes_samples()
    for evaluation, reason in ((RUNNING, "generates"), (imported.cancel(NOW), "cancelled")):
        with pytest.raises(FailedPrecondition, match=reason):
            evaluation.check_takes_samples()
