"""Samples are drawn once, from the right weights; a fault of the platform is never a wrong answer."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from eval_service.domain.evaluation import Evaluation
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef, SuiteEntry
from ratchet_kit.errors import (
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    RatchetError,
    ResourceExhausted,
    Unavailable,
)
from ratchet_kit.names import Location, VersionRef
from ratchet_problems import Message

SPEC = EvaluationSpec(
    VersionRef("starter", 1), (SuiteEntry(ProblemSetRef("basics")),), samples_per_problem=2, k=(1, 2), seed=7
)


async def claimed(world: Any, spec: EvaluationSpec = SPEC) -> Evaluation:
    id = (await world.evaluations.create(spec, "")).evaluation.id
    evaluation: Evaluation = await world.store.change(
        id, lambda present: present.claim("me", world.clock.now(), timedelta(hours=9))
    )
    return evaluation


async def test_each_sample_is_drawn_graded_and_stored(world: Any) -> None:
    evaluation = await claimed(world)
    result = await world.measurer.run(evaluation, "me")
    assert [(item.k, item.estimate.value) for item in result.pass_at_k] == [(1, 0.5), (2, 0.5)]
    samples = (await world.evaluations.sample_page(evaluation.id, 0, "")).items
    assert [(sample.key.problem_id, sample.key.index) for sample in samples] == [
        (f"p0{p}", i) for p in range(6) for i in (0, 1)
    ]
    assert {sample.policy_id for sample in samples} == {world.host.weights}
    assert samples[0].completion == f"Solve 0. {evaluation.seed_of('p00', 0)}"
    report = await world.evaluations.get(evaluation.id)
    assert (report.score.problems_done, report.score.problems_total, report.samples_total) == (6, 6, 12)
    assert report.score.verdicts == {"PASSED": 6, "FAILED": 6} == dict(world.meter.verdicts)
    assert report.evaluation.policy_id == world.host.weights
    assert report.evaluation.spec.digests[0].startswith("sha256:")
    assert world.host.loaded == set()


async def test_many_are_under_way_together_but_not_more_than_set(world: Any) -> None:
    await world.measurer.run(await claimed(world), "me")
    assert world.host.most_in_flight == 4


async def test_resumed_it_draws_only_what_is_missing(world: Any) -> None:
    evaluation = await claimed(world)
    await world.measurer.run(evaluation, "me")
    first = {sample.key: sample for sample in (await world.store.sample_page(evaluation.id, 99, None))}
    lost = world.store._samples[evaluation.id]
    for key in list(lost)[:5]:
        del lost[key]
    world.host.completions.clear()
    await world.measurer.run(evaluation, "me")
    assert len(world.host.completions) == 5
    again = {sample.key: sample for sample in (await world.store.sample_page(evaluation.id, 99, None))}
    assert again == first


@pytest.mark.parametrize("where", ["host", "environment"])
async def test_faults_are_retried(world: Any, where: str) -> None:
    faults = [Unavailable("down"), ResourceExhausted("full", timedelta(seconds=30)), Unavailable("down")]
    getattr(world, where).faults = faults
    result = await world.measurer.run(await claimed(world), "me")
    assert result.pass_at_k[0].estimate.value == 0.5
    assert world.meter.faults == {"Unavailable": 2, "ResourceExhausted": 1}


@pytest.mark.parametrize("where", ["host", "environment"])
async def test_a_platform_that_stays_down_fails_it_and_counts_nothing(world: Any, where: str) -> None:
    getattr(world, where).faults = [Unavailable("the sandbox failed 5 times")] * 10_000
    evaluation = await claimed(world)
    with pytest.raises(Unavailable, match=r"not one sample could be made for 3\d\d s: the sandbox failed 5 times"):
        await world.measurer.run(evaluation, "me")
    assert await world.store.sample_page(evaluation.id, 99, None) == []
    assert (await world.evaluations.get(evaluation.id)).score.verdicts == {}


async def test_it_waits_for_room(world: Any) -> None:
    world.host.open_faults = [ResourceExhausted("4 policies are loaded")] * 20
    await world.measurer.run(await claimed(world), "me")
    world.host.open_faults = [ResourceExhausted("4 policies are loaded")] * 200
    with pytest.raises(Unavailable, match="could not be loaded: 4 policies"):
        await world.measurer.run(await claimed(world), "me")


@pytest.mark.parametrize("loss", [NotFound("it is not loaded"), FailedPrecondition("it serves other weights")])
async def test_a_lost_policy_is_opened_again(world: Any, loss: RatchetError) -> None:
    world.host.faults = [loss]
    evaluation = await claimed(world)
    assert (await world.measurer.run(evaluation, "me")).pass_at_k[0].estimate.value == 0.5
    assert world.host.opened[evaluation.id] == 2


async def test_a_policy_that_is_lost_again_and_again_fails_it(world: Any) -> None:
    world.host.faults = [NotFound("it is not loaded")] * 10_000
    with pytest.raises(Unavailable, match="lost 4 times: it is not loaded"):
        await world.measurer.run(await claimed(world), "me")


@pytest.mark.parametrize("part", ["weights", "settings"])
async def test_another_model_than_the_registered_is_not_measured(world: Any, part: str) -> None:
    setattr(world.host, part, "sha256:other")
    evaluation = await claimed(world)
    with pytest.raises(FailedPrecondition, match="sha256:other was loaded"):
        await world.measurer.run(evaluation, "me")
    assert world.host.completions == []


async def test_resumed_from_a_path_it_does_not_mix_weights(world: Any) -> None:
    evaluation = await claimed(world, replace(SPEC, model=Location("/m")))
    world.host.faults = [InvalidArgument("the prompt is too long")]
    with pytest.raises(InvalidArgument, match="too long"):
        await world.measurer.run(evaluation, "me")
    world.host.weights = "sha256:other"
    with pytest.raises(FailedPrecondition, match="sha256:other was loaded"):
        await world.measurer.run(evaluation, "me")


async def test_changed_problems_are_not_mixed(world: Any) -> None:
    evaluation = await claimed(world)
    await world.measurer.run(evaluation, "me")
    world.problems.problems = world.problems.problems[:3]
    with pytest.raises(FailedPrecondition, match="changed"):
        await world.measurer.run(evaluation, "me")


async def test_a_bug_is_not_retried(world: Any) -> None:
    world.environment.faults = [ZeroDivisionError("bug")]  # type: ignore[list-item]
    with pytest.raises(ZeroDivisionError):
        await world.measurer.run(await claimed(world), "me")


async def test_an_episode_of_several_turns_is_one_sample(world: Any) -> None:
    world.environment.turns = 2
    evaluation = await claimed(world)
    assert (await world.measurer.run(evaluation, "me")).pass_at_k[0].estimate.value == 0.5
    assert len(world.host.completions) == 2 * len(await world.store.sample_keys(evaluation.id)) == 24
    chats = [messages for messages, _ in world.host.completions if len(messages) == 3]
    assert len(chats) == 12
    seed = evaluation.seed_of("p00", 0)
    assert (
        Message("user", "Solve 0."),
        Message("assistant", f"Solve 0. {seed}"),
        Message("user", "Look again."),
    ) in chats
    [first, *_] = await world.store.sample_page(evaluation.id, 1, None)
    assert first.completion == f"Look again. {seed}"
