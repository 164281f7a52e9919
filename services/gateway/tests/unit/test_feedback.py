from datetime import timedelta

import pytest

from gateway_service.domain.traffic.record import ProblemRef
from ratchet_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Unavailable

from ..world import World

PROBLEM = ProblemRef("composed/test", "hi")


@pytest.fixture
async def completion_id(world: World) -> str:
    world.grader.problems.add("hi")
    return (await world.ask(text="say hi")).id


async def test_a_score_is_attached_and_the_text_dropped(world: World, completion_id) -> None:
    assert await world.gateway.feedback.score(completion_id, 0.25) == 0.25
    record = await world.completions.get(completion_id)
    assert (record.score, record.texts) == (0.25, ())


async def test_a_repeated_request_changes_nothing(world: World, completion_id) -> None:
    feedback = world.gateway.feedback
    await feedback.score(completion_id, 0.25, "req_1")
    await feedback.score(completion_id, 0.5, "req_2")
    assert await feedback.score(completion_id, 0.25, "req_1") == 0.25
    assert (await world.completions.get(completion_id)).score == 0.5
    with pytest.raises(AlreadyExists):
        await feedback.score(completion_id, 0.75, "req_1")


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), float("inf")])
async def test_scores_are_in_0_to_1(world: World, completion_id, score) -> None:
    with pytest.raises(InvalidArgument):
        await world.gateway.feedback.score(completion_id, score)


async def test_graded_by_tests_once(world: World, completion_id) -> None:
    assert await world.gateway.feedback.grade(completion_id, PROBLEM) == 1
    assert await world.gateway.feedback.grade(completion_id, PROBLEM) == 1
    assert world.grader.graded == 1


async def test_unknown_completions_and_problems(world: World, completion_id) -> None:
    with pytest.raises(NotFound):
        await world.gateway.feedback.score("cmpl_none", 1)
    with pytest.raises(NotFound):
        await world.gateway.feedback.grade("cmpl_none", PROBLEM)
    with pytest.raises(NotFound):
        await world.gateway.feedback.grade(completion_id, ProblemRef("composed/test", "unknown"))


async def test_a_fault_of_the_sandbox_is_no_score(world: World, completion_id) -> None:
    world.grader.fault = Unavailable("the sandbox failed 5 times")
    with pytest.raises(Unavailable):
        await world.gateway.feedback.grade(completion_id, PROBLEM)
    world.grader.fault = None
    assert await world.gateway.feedback.grade(completion_id, PROBLEM) == 1


async def test_what_is_not_kept_cannot_be_graded(world: World, completion_id) -> None:
    await world.gateway.feedback.score(completion_id, 0.5)
    with pytest.raises(FailedPrecondition):
        await world.gateway.feedback.grade(completion_id, PROBLEM)


async def test_old_texts_and_records_are_dropped(world: World, completion_id) -> None:
    await world.gateway.recorder.flush()
    now = world.clock.now() + timedelta(days=2)
    await world.completions.prune(now - timedelta(days=1), now - timedelta(days=30))
    assert (await world.completions.get(completion_id)).texts == ()
