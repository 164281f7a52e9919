"""A curriculum in jobs that are killed: what it went by is kept with their checkpoints. Minutes."""

from typing import Any

import pytest

from ratchet_environments import EnvironmentSpec
from ratchet_problems import load
from trainer_service.domain.spec.curriculum import Curriculum, Kind, Stage
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.spec import ProblemSetRef

from .world import RUNS_JOBS, Reports, World

pytestmark = RUNS_JOBS

FEW = ProblemSetRef("composed/train", limit=24)
STAGES = (Stage(max_difficulty=4, steps=2), Stage(min_difficulty=2))
CURRICULUM = Curriculum(0.1, STAGES)
DRAWN_BY = ("stage", "effective_problems", "estimated_pass_rate")


def found(reports: Reports, number: int, *names: str) -> list[object]:
    """By the step: its weights, and these metrics."""
    step = reports.steps[number]
    return [step.policy_id, *(step.metrics[name] for name in (*DRAWN_BY, "reward_mean", *names))]


@pytest.mark.timeout(900)  # two jobs
async def test_it_goes_on_after_a_kill_with_what_it_knew(world: World, run_spec: Any) -> None:
    spec, reports = run_spec(steps=6, validate_every=3, problems=FEW, curriculum=CURRICULUM), world.reports
    # Steps 4 and 5 are after the checkpoint of step 3: they are lost with the job, and done again.
    await world.kill(world.job(spec), after=5)
    before = [found(reports, number, "groups_without_signal") for number in (4, 5)]
    await world.finish(world.job(spec))
    assert reports.attempts() == [1, 1, 1, 2, 2, 2]
    assert [found(reports, number, "groups_without_signal") for number in (4, 5)] == before
    assert reports.measured("stage") == [1, 1, 2, 2, 2, 2]
    kinds = [Kind(one.difficulty) for one in load(FEW.name, limit=FEW.limit)]
    for step in reports.steps.values():
        selected = sum(map(STAGES[int(step.metrics["stage"]) - 1].selects, kinds))
        assert 1 <= step.metrics["effective_problems"] <= selected + 1e-6


@pytest.mark.timeout(900)  # three jobs
async def test_episodes_under_it_are_made_ahead_and_again_after_a_kill(world: World, run_spec: Any) -> None:
    """Prompts are drawn by what the step before told, whose samples were of older weights than the step's own."""
    ahead, edits = Hyperparameters(max_staleness=1, max_response_tokens=192), EnvironmentSpec("edits")
    spec = run_spec("grpo", ahead, steps=5, validate_every=3, problems=FEW, curriculum=CURRICULUM, environment=edits)
    reports = world.reports
    # Step 4 is after the checkpoint of step 3: it is lost with the job, and with what was made ahead of step 5.
    await world.kill(world.job(spec), after=4)
    await world.finish(world.job(spec))
    assert reports.attempts() == [1, 1, 1, 2, 2]
    assert reports.measured("staleness_mean") == [0, 1, 1, 0, 1]
    assert reports.measured("stage") == [1, 1, 2, 2, 2]
    assert all(1 < turns <= 3 for turns in reports.measured("turns_mean"))
    assert all(reports.steps[number].metrics["logprob_diff_mean"] < 1e-3 for number in (1, 4))
    assert reports.faults == 0
    made, scores = [found(reports, number, "turns_mean") for number in range(1, 6)], reports.scores()
    reports.forget()
    await world.finish(world.job(spec, name="whole"))
    assert ([found(reports, number, "turns_mean") for number in range(1, 6)], reports.scores()) == (made, scores)


@pytest.mark.timeout(900)  # two jobs
async def test_episodes_that_updates_meet_go_on_under_it_and_after_a_kill(world: World, run_spec: Any) -> None:
    """Nothing is under way at a checkpoint, so that a resumed job begins as one that was not killed would go on."""
    ahead, edits = Hyperparameters(max_staleness=3, max_response_tokens=192), EnvironmentSpec("edits")
    spec = run_spec("grpo", ahead, steps=8, validate_every=4, problems=FEW, curriculum=CURRICULUM, environment=edits)
    reports = world.reports
    await world.kill(world.job(spec), after=6)
    await world.finish(world.job(spec))
    assert reports.attempts() == [1, 1, 1, 1, 2, 2, 2, 2]
    assert (reports.faults, sorted(reports.checkpoints)) == (0, [4, 8])
    stale = reports.measured("staleness_max")
    assert (stale[0], stale[4], max(stale) <= 3) == (0, 0, True)
    assert all(1 < turns <= 3 for turns in reports.measured("turns_mean"))
    assert all(reports.steps[number].metrics["groups"] == 4 for number in reports.steps)
