"""Samples are drawn once, from the right weights; a fault of the platform is never a wrong answer."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from eval_service.domain.evaluation import Evaluation
from eval_service.domain.ports import Played
from eval_service.domain.sets import Imported
from eval_service.domain.spec import EvaluationSpec, Form, ProblemSetRef, Prompting, SuiteEntry
from ratchet_environments import EnvironmentSpec
from ratchet_environments.failures import FailedTest
from ratchet_kit.errors import (
    Aborted,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    RatchetError,
    ResourceExhausted,
    Unavailable,
)
from ratchet_kit.names import Location, VersionRef
from ratchet_kit.usage import Usage
from ratchet_policies import EngineShare, EngineUsage
from ratchet_problems import Message

from ..conftest import episode, problem

SPEC = EvaluationSpec(
    VersionRef("starter", 1), (SuiteEntry(ProblemSetRef("basics")),), samples_per_problem=2, k=(1, 2), seed=7
)


async def claimed(world: Any, spec: EvaluationSpec = SPEC, added: Sequence[Imported] = ()) -> Evaluation:
    id = (await world.evaluations.create(spec, "")).evaluation.id
    if added:
        await world.evaluations.add(id, added)
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
    failed = [(one.judgement.failed_tests, one.judgement.held_out_failed) for one in samples[::2]]
    assert failed == [((), 0), ((FailedTest("solve(1)", "1", "0"),), 3)] * 3
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
    with pytest.raises(Unavailable, match="lost 4 times without a new sample: it is not loaded"):
        await world.measurer.run(await claimed(world), "me")


async def test_a_policy_that_is_lost_many_times_does_not_fail_one_that_goes_on(world: Any) -> None:
    """Of 480 samples some are new before each loss."""
    asked = count(1)

    def lost_now_and_then(task: str) -> Played:
        if next(asked) % 50 == 0:
            raise NotFound("it is not loaded")
        return episode(task)

    world.host.plays = lost_now_and_then
    plays = replace(SPEC, environment=EnvironmentSpec("harness", command=("x",)), samples_per_problem=80, k=(1,))
    evaluation = await claimed(world, plays)
    assert (await world.measurer.run(evaluation, "me")).verdicts == {"PASSED": 240, "FAILED": 240}
    assert world.host.opened[evaluation.id] > 5


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
    seed, later = evaluation.seed_of("p00", 0), evaluation.seed_of("p00", 0, turn=1)
    assert (
        Message("user", "Solve 0."),
        Message("assistant", f"Solve 0. {seed}"),
        Message("user", "Look again."),
    ) in chats
    [first, *_] = await world.store.sample_page(evaluation.id, 1, None)
    assert (first.completion, first.tokens, first.turns) == (f"Look again. {later}", 6, 2)
    world.environment.turns = 1
    await world.measurer.run(await claimed(world), "me")
    assert len(world.host.completions) == 24 + 12, "nobody who asks for a first answer is given a last one"


async def test_an_episode_without_room_ends_as_its_last_answer_left_it(world: Any) -> None:
    world.environment.turns, world.host.room = 3, 2
    evaluation = await claimed(world)
    assert (await world.measurer.run(evaluation, "me")).pass_at_k[0].estimate.value == 0
    assert len(world.host.completions) == 12


async def test_a_chat_with_replies_needs_a_chat_template(world: Any) -> None:
    world.host.has_chat_template = False
    evaluation = await claimed(world, replace(SPEC, environment=EnvironmentSpec("edits")))
    with pytest.raises(InvalidArgument, match="the prompts are texts"):
        await world.measurer.run(evaluation, "me")


async def test_a_system_is_put_before_problems_without_one_of_their_own(world: Any) -> None:
    asked = replace(problem(0), conversation=(Message("system", "Be brief."),))
    world.problems.problems = [asked, problem(1)]
    await world.measurer.run(await claimed(world, replace(SPEC, system="Answer in Python.")), "me")
    said = {tuple(message.content for message in messages) for messages, _ in world.host.completions}
    assert said == {("Be brief.", "Solve 0."), ("Answer in Python.", "Solve 1.")}
    world.host.has_chat_template = False
    with pytest.raises(InvalidArgument, match=r"spec.system must be left out: it is of chats"):
        await world.measurer.run(await claimed(world, replace(SPEC, system="Answer in Python.")), "me")


async def test_a_chat_template_of_its_own_makes_chats_of_a_model_that_has_none(world: Any) -> None:
    world.host.has_chat_template = False
    template = "{{ messages[0].content }}"
    evaluation = await claimed(world, replace(SPEC, chat_template=template))
    await world.measurer.run(evaluation, "me")
    assert world.host.templates == {template}
    assert (await world.store.get(evaluation.id)).spec.prompting.form is Form.CHAT


async def test_solved_problems_are_shown_before_each_and_none_before_itself(world: Any) -> None:
    world.problems.problems = [problem(0), problem(1)]
    world.problems.more = [replace(problem(number), references=(f"answer {number}",)) for number in range(2)]
    spec = replace(SPEC, system="Be brief.", examples=ProblemSetRef("more", 1))
    evaluation = await claimed(world, spec)
    assert evaluation.spec.examples is not None
    assert evaluation.spec.examples.digest.startswith("sha256:")
    await world.measurer.run(evaluation, "me")
    said = {tuple(message.content for message in messages) for messages, _ in world.host.completions}
    assert said == {
        ("Be brief.", "Solve 1.", "answer 1", "Solve 0."),
        ("Be brief.", "Solve 0.", "answer 0", "Solve 1."),
    }


async def test_examples_that_change_end_the_evaluation(world: Any) -> None:
    world.problems.more = [replace(problem(0), references=("answer",))]
    evaluation = await claimed(world, replace(SPEC, examples=ProblemSetRef("more", 1)))
    world.problems.more = [replace(problem(0), references=("another",))]
    with pytest.raises(FailedPrecondition, match="the problems of more changed"):
        await world.measurer.run(evaluation, "me")


SUITE = (SuiteEntry(ProblemSetRef("basics"), 0.75), SuiteEntry(ProblemSetRef("more"), 0.25))


async def test_a_suite_is_measured_whole_and_what_its_sets_share_is_drawn_once(world: Any) -> None:
    world.problems.more = [*world.problems.problems[:2], problem(8)]
    evaluation = await claimed(world, replace(SPEC, suite=SUITE))
    found = await world.measurer.run(evaluation, "me")
    assert [(one.name, one.pass_at_k[0].estimate.value) for one in found.benchmarks] == [
        ("basics", 0.5),
        ("more", pytest.approx(2 / 3)),
    ]
    assert found.pass_at_k[0].estimate.value == pytest.approx(0.75 * 0.5 + 0.25 * 2 / 3)
    assert len(await world.store.sample_keys(evaluation.id)) == 18
    assert len(world.host.completions) == 14, "two problems of two samples are in both"


async def test_made_again_it_draws_nothing_and_judges_all(world: Any) -> None:
    first = await world.measurer.run(await claimed(world), "me")
    drawn, judged = len(world.host.completions), len(world.environment.judged)
    assert await world.measurer.run(await claimed(world), "me") == first
    assert (len(world.host.completions), len(world.environment.judged)) == (drawn, 2 * judged)
    for other in (replace(SPEC, seed=8), replace(SPEC, max_tokens=9), replace(SPEC, temperature=0.5)):
        await world.measurer.run(await claimed(world, other), "me")
        drawn += 12
        assert len(world.host.completions) == drawn


async def test_a_base_model_goes_on_with_a_text(world: Any) -> None:
    world.host.has_chat_template = False
    evaluation = await claimed(world, replace(SPEC, prompting=Prompting(shots=2)))
    await world.measurer.run(evaluation, "me")
    text, sampling = world.host.texts[0]
    assert (text, sampling.stop) == ("Example. Example. # Solve 0.", ("\ndef",))
    assert (await world.store.get(evaluation.id)).spec.prompting == Prompting(Form.COMPLETION, 2)
    assert world.host.completions == []


async def test_the_form_may_be_chosen(world: Any) -> None:
    evaluation = await claimed(world, replace(SPEC, prompting=Prompting(Form.COMPLETION)))
    await world.measurer.run(evaluation, "me")
    assert (len(world.host.texts), world.host.completions) == (12, [])


async def test_what_was_drawn_and_not_judged_is_judged_first(world: Any) -> None:
    world.environment.faults = [Unavailable("down")] * 10_000
    evaluation = await claimed(world)
    with pytest.raises(Unavailable):
        await world.measurer.run(evaluation, "me")
    drawn = len(world.host.completions)
    world.environment.faults = []
    await world.measurer.run(evaluation, "me")
    assert drawn > 0
    assert len(world.host.completions) == 12


async def test_a_sample_says_what_it_took(world: Any) -> None:
    evaluation = await claimed(world)
    await world.measurer.run(evaluation, "me")
    [first, *_] = await world.store.sample_page(evaluation.id, 1, None)
    assert (first.tokens, first.truncated, first.generation_time) == (3, False, timedelta())
    assert first.judgement.failure is None


async def test_an_evaluation_adds_up_what_its_attempts_use(world: Any) -> None:
    evaluation = await claimed(world)
    world.environment.cpu_times = {f"p0{number}": timedelta(seconds=5) for number in range(6)}
    world.host.share.seen(EngineUsage(timedelta(hours=1), timedelta(hours=2), 0))
    world.host.share.made(100, 50)
    await world.measurer.run(evaluation, "me")
    first = (await world.store.get(evaluation.id)).usage
    assert (first.gpu_time, first.cpu_time) == (timedelta(hours=1), timedelta(hours=2))
    assert (first.sandbox_time, first.prompt_tokens, first.completion_tokens) == (timedelta(minutes=1), 100, 50)
    assert (first.cost, first.currency) == (pytest.approx(0.6), "EUR")
    world.environment.faults = [InvalidArgument("broken")]
    world.store._samples[evaluation.id].clear()
    world.host.share = EngineShare()
    world.host.share.made(1, 1)
    with pytest.raises(RatchetError):
        await world.measurer.run(await world.store.get(evaluation.id), "me")
    both = (await world.store.get(evaluation.id)).usage
    assert both.prompt_tokens == 101, "a failed attempt counts, too"
    assert both.cost >= 0.6


async def test_what_it_used_is_the_forecast_of_the_next_like_it(world: Any) -> None:
    evaluation = await claimed(world)
    world.host.share.made(120, 12 * 3)  # its twelve samples have three tokens each
    score = await world.measurer.run(evaluation, "me")
    await world.store.change(evaluation.id, lambda present: present.succeed("me", score, world.clock.now()))
    expected = (await world.evaluations.create(replace(SPEC, samples_per_problem=6), "")).evaluation.forecast
    assert (expected.prompt_tokens, expected.completion_tokens) == (360, 108)
    world.host.share = EngineShare()  # the next one draws nothing anew, and is no measure
    again = await claimed(world)
    score = await world.measurer.run(again, "me")
    await world.store.change(again.id, lambda present: present.succeed("me", score, world.clock.now()))
    expected = (await world.evaluations.create(SPEC, "")).evaluation.forecast
    assert (expected.prompt_tokens, expected.completion_tokens) == (120, 36)


async def test_a_budget_ends_it_and_what_was_judged_is_kept(world: Any) -> None:
    evaluation = await claimed(world, replace(SPEC, budget=0.2))
    world.environment.cpu_times = {f"p0{number}": timedelta(seconds=5) for number in range(6)}  # 0.05 EUR a sample
    world.host.hang.clear()
    world.host.hang_after = 4
    with pytest.raises(ResourceExhausted, match=r"budget of 0\.2 EUR with 4 samples judged, which are kept"):
        await world.measurer.run(evaluation, "me")
    assert world.host.loaded == set()
    report = await world.evaluations.get(evaluation.id)
    assert (report.evaluation.usage.cost, sum(report.score.verdicts.values())) == (pytest.approx(0.2), 4)
    world.host.hang.set()
    other = await claimed(world, replace(SPEC, budget=100.0))
    assert sum((await world.measurer.run(other, "me")).verdicts.values()) == 12
    assert len(world.host.completions) == 12, "kept samples are not drawn again"


async def test_a_worker_that_lost_an_evaluation_counts_nothing_for_it(world: Any) -> None:
    evaluation = await claimed(world)
    with pytest.raises(Aborted):
        evaluation.use("another", Usage(prompt_tokens=5))
    cancelled = evaluation.cancel(world.clock.now())
    assert cancelled.use("me", Usage(prompt_tokens=5)).usage.prompt_tokens == 5


async def test_drawing_waits_while_judging_is_behind(world: Any) -> None:
    judging = asyncio.Event()
    step = world.environment.step

    async def slow(episode: Any, answer: str) -> Any:
        await judging.wait()
        return await step(episode, answer)

    world.environment.step = slow
    measuring = asyncio.create_task(
        world.measurer.run(await claimed(world, replace(SPEC, samples_per_problem=20, k=(1,))), "me")
    )
    for _ in range(1000):
        await asyncio.sleep(0)
    assert len(world.host.completions) == 12, "4 that are drawn and 8 that are judged at once"
    judging.set()
    await measuring
    assert len(world.host.completions) == 120
