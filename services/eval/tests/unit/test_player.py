"""Samples that are episodes of a harness: a fault of the platform plays them again, and is no verdict."""

from dataclasses import replace
from typing import Any

import pytest

from eval_service.domain.sample import FailureClass
from eval_service.domain.score import EpisodeMeans
from ratchet_environments import EnvironmentSpec
from ratchet_kit.errors import InvalidArgument, NotFound, Unavailable

from ..conftest import episode
from .test_measurer import SPEC, claimed


async def test_a_harness_plays_an_episode_for_each_sample(world: Any) -> None:
    plays = EnvironmentSpec("harness", command=("python", "agent.py"))
    evaluation = await claimed(world, replace(SPEC, environment=plays, samples_per_problem=2, k=(1, 2)))
    world.host.faults = [Unavailable("a fault of the platform")]
    score = await world.measurer.run(evaluation, "me")
    assert [row.estimate.value for row in score.pass_at_k] == [0.5, 0.5]
    assert len(world.host.played) == 12
    assert {command for _, command, _ in world.host.played} == {("python", "agent.py")}
    assert len({sampling.seed for _, _, sampling in world.host.played}) == 12
    assert not world.host.completions
    assert not world.environment.judged, "nothing but the folder judges an episode"
    samples = await world.store.sample_page(evaluation.id, 100, None)
    first, other = samples[0], next(one for one in samples if one.key.problem_id == "p01")
    assert (first.completion, first.tokens, first.request) == ("said of p00", 7, "")
    assert (first.judgement.verdict, first.judgement.detail) == ("PASSED", "reward; 2 answers of the model")
    assert (other.judgement.verdict, other.judgement.failure) == ("FAILED", FailureClass.WRONG)
    assert (first.turns, first.tool_errors, first.recorded) == (2, 1, True)
    assert (await world.store.sample(evaluation.id, first.key)).record == b"record of p00"
    assert score.episodes == EpisodeMeans(2.0, 1.0, 7.0, 2.0)
    again = await world.measurer.run(await world.store.get(evaluation.id), "me")
    assert (again, len(world.host.played)) == (score, 12), "what is stored is not played again"


async def test_an_episode_without_a_record_has_its_verdict_all_the_same(world: Any) -> None:
    world.host.plays = lambda task: replace(episode(task), record=b"")
    plays = replace(SPEC, environment=EnvironmentSpec("harness", command=("x",)), samples_per_problem=1, k=(1,))
    evaluation = await claimed(world, plays)
    score = await world.measurer.run(evaluation, "me")
    assert score.verdicts == {"PASSED": 3, "FAILED": 3}
    assert not any(one.recorded for one in await world.store.sample_page(evaluation.id, 9, None))


async def test_a_harness_that_is_ended_by_a_limit_and_could_have_forged_its_reward(world: Any) -> None:
    late, forging = episode("p01"), episode("p00")
    world.host.plays = lambda task: (
        replace(forging, forgeable=True) if task == "p00" else replace(late, limit="TIME_LIMIT")
    )
    evaluation = await claimed(
        world, replace(SPEC, environment=EnvironmentSpec("harness", command=("x",)), samples_per_problem=1, k=(1,))
    )
    score = await world.measurer.run(evaluation, "me")
    assert score.benchmarks[0].failures == {"TIMEOUT": 5}
    assert score.benchmarks[0].forgeable_passes == 1


async def test_a_policy_that_a_harness_lost_is_loaded_again_and_a_wrong_command_ends_it(world: Any) -> None:
    plays = replace(SPEC, environment=EnvironmentSpec("harness", command=("x",)))
    world.host.faults = [NotFound("the policy is gone")]
    evaluation = await claimed(world, plays)
    await world.measurer.run(evaluation, "me")
    assert world.host.opened[evaluation.id] == 2
    world.host.faults = [InvalidArgument("x can't be started in the workspace")]
    with pytest.raises(InvalidArgument, match="can't be started"):
        await world.measurer.run(await claimed(world, plays), "me")
