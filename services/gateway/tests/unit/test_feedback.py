import asyncio
from datetime import timedelta

import pytest

from gateway_service.domain.keys.caller import ANYBODY, set_caller
from gateway_service.domain.traffic import recorder
from gateway_service.domain.traffic.feedback import FeedbackRequest, Score
from gateway_service.domain.traffic.record import ProblemRef
from ratchet_kit.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unavailable,
)
from ratchet_kit.ids import new_id

from ..world import World

PROBLEM = ProblemRef("composed/test", "hi")


@pytest.fixture
async def completion_id(world: World) -> str:
    world.grader.problems.add("hi")
    return (await world.ask(text="say hi")).id


async def test_a_score_is_attached_and_the_text_dropped(world: World, completion_id) -> None:
    assert await world.gateway.feedback.give(FeedbackRequest(completion_id, Score(0.25))) == 0.25
    record = await world.completions.get(completion_id)
    assert (record.score, record.texts) == (0.25, ())


async def test_a_repeated_request_changes_nothing(world: World, completion_id) -> None:
    feedback = world.gateway.feedback
    await feedback.give(FeedbackRequest(completion_id, Score(0.25), request_id="req_1"))
    await feedback.give(FeedbackRequest(completion_id, Score(0.5), request_id="req_2"))
    assert await feedback.give(FeedbackRequest(completion_id, Score(0.25), request_id="req_1")) == 0.25
    assert (await world.completions.get(completion_id)).score == 0.5
    with pytest.raises(AlreadyExists):
        await feedback.give(FeedbackRequest(completion_id, Score(0.75), request_id="req_1"))


async def test_a_key_scores_its_own_answers_and_has_its_own_request_ids(world: World) -> None:
    world.grader.problems.add("hi")
    feedback, answers = world.gateway.feedback, {}
    for name in ("one", "two"):
        key = await world.key(name)
        answers[key] = (await world.ask(text="say hi")).id
    mine, theirs = answers
    set_caller(mine)
    with pytest.raises(PermissionDenied):
        await feedback.give(FeedbackRequest(answers[theirs], Score(0)))
    with pytest.raises(PermissionDenied):
        await feedback.give(FeedbackRequest(answers[theirs], PROBLEM))
    assert await feedback.give(FeedbackRequest(answers[mine], Score(1), request_id="req_1")) == 1
    set_caller(theirs)
    assert await feedback.give(FeedbackRequest(answers[theirs], PROBLEM, request_id="req_1")) == 1
    set_caller(ANYBODY)  # an administrator
    assert await feedback.give(FeedbackRequest(answers[mine], Score(0.5), request_id="req_1")) == 0.5


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), float("inf")])
async def test_scores_are_in_0_to_1(world: World, completion_id, score) -> None:
    with pytest.raises(InvalidArgument):
        await world.gateway.feedback.give(FeedbackRequest(completion_id, Score(score)))


async def test_graded_by_tests_once(world: World, completion_id) -> None:
    assert await world.gateway.feedback.give(FeedbackRequest(completion_id, PROBLEM)) == 1
    assert await world.gateway.feedback.give(FeedbackRequest(completion_id, PROBLEM)) == 1
    assert world.grader.graded == 1


async def test_unknown_completions_and_problems(world: World, completion_id) -> None:
    with pytest.raises(NotFound):
        await world.gateway.feedback.give(FeedbackRequest("cmpl_none", Score(1)))
    with pytest.raises(NotFound):
        await world.gateway.feedback.give(FeedbackRequest("cmpl_none", PROBLEM))
    with pytest.raises(NotFound):
        await world.gateway.feedback.give(FeedbackRequest(completion_id, ProblemRef("composed/test", "unknown")))


@pytest.mark.parametrize("late_s", [0.15, 2.3])
async def test_what_another_gateway_has_not_stored_yet_is_waited_for(world: World, late_s: float) -> None:
    """On a machine that is too busy a record is seconds late."""
    async with world.another() as other:
        world.grader.problems.add("hi")
        scored, graded = (await world.ask(text="say hi")).id, (await world.ask(text="say hi")).id
        scoring = asyncio.create_task(other.feedback.give(FeedbackRequest(scored, Score(0.25))))
        grading = asyncio.create_task(other.feedback.give(FeedbackRequest(graded, PROBLEM)))
        await asyncio.sleep(late_s)
        await world.gateway.recorder.flush()
        assert (await scoring, await grading) == (0.25, 1)
    assert (await world.completions.get(scored)).score == 0.25


async def test_what_is_on_no_way_is_not_found_in_the_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "ON_ITS_WAY", timedelta(seconds=0.2))
    with pytest.raises(NotFound):
        await world.gateway.feedback.give(FeedbackRequest(new_id("cmpl"), Score(1)))


async def test_a_fault_of_the_sandbox_is_no_score(world: World, completion_id) -> None:
    world.grader.fault = Unavailable("the sandbox failed 5 times")
    with pytest.raises(Unavailable):
        await world.gateway.feedback.give(FeedbackRequest(completion_id, PROBLEM))
    world.grader.fault = None
    assert await world.gateway.feedback.give(FeedbackRequest(completion_id, PROBLEM)) == 1


async def test_what_is_not_kept_cannot_be_graded(world: World, completion_id) -> None:
    await world.gateway.feedback.give(FeedbackRequest(completion_id, Score(0.5)))
    with pytest.raises(FailedPrecondition):
        await world.gateway.feedback.give(FeedbackRequest(completion_id, PROBLEM))


async def test_an_old_text_is_not_kept_for_grading(world: World, completion_id) -> None:
    await world.gateway.recorder.flush()
    await world.completions.forget_texts(world.clock.now() + timedelta(days=2))
    with pytest.raises(FailedPrecondition, match="too old"):
        await world.gateway.feedback.give(FeedbackRequest(completion_id, PROBLEM))


async def test_scored_answers_are_counted(world: World, completion_id) -> None:
    feedback = world.gateway.feedback
    assert await feedback.count("starter") == 0
    await feedback.give(FeedbackRequest(completion_id, Score(0.5)))
    await feedback.give(FeedbackRequest(completion_id, Score(1.0)))
    model = (await world.completions.get(completion_id)).version.model
    assert await feedback.count(model) == 1
    assert await feedback.count(model, world.clock.now() + timedelta(hours=1)) == 0
    with pytest.raises(InvalidArgument, match="model"):
        await feedback.count("No Name")
