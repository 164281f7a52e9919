"""RL for real: verl on a local Ray, vLLM behind rollout-service, programs in sandbox-service. Minutes."""

import asyncio
import json
import os
import shutil
import signal
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from ratchet_environments import EnvironmentSpec
from ratchet_kit import policy_id
from ratchet_rewards import Component, Reward
from trainer_service.domain.run.sample import Sample, Wanted
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.spec import Resources
from trainer_service.job.plugins import entry_points
from trainer_service.job.samples import sample_files

from .world import PATIENCE, RUNS_JOBS, STARTER, World

pytestmark = RUNS_JOBS


async def test_an_engine_that_can_never_load_ends_the_run_in_its_first_attempt(world: World, run_spec: Any) -> None:
    """The trainer takes the base for its model_type."""
    base = Path(shutil.copytree(STARTER, world.folder / "base"))
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(config | {"architectures": ["NowhereForCausalLM"]}))
    async with world.running(world.job(run_spec(), base=base)) as job, asyncio.timeout(PATIENCE.total_seconds()):
        assert await job.wait() == 1
    assert "vLLM did not start: Model architectures ['NowhereForCausalLM'] are not supported" in world.reports.ending


async def test_what_a_job_cannot_begin_without_ends_the_run_too(world: World, run_spec: Any) -> None:
    reward = Reward(components=(Component("plugin:nobody_made_this"),))
    async with world.running(world.job(run_spec(reward=reward))) as job, asyncio.timeout(PATIENCE.total_seconds()):
        assert await job.wait() == 1
    assert "nobody_made_this" in world.reports.ending


@pytest.mark.timeout(900)  # two jobs
async def test_a_run_of_two_engines_is_one_of_one_engine(world: World, run_spec: Any) -> None:
    spec, reports = run_spec(steps=6, validate_every=6), world.reports
    await world.finish(world.job(spec, name="one"))
    made, scores = reports.policy_ids(), reports.scores()
    reports.forget()

    two = world.job(replace(spec, resources=replace(spec.resources, engines=2)), name="two")
    async with (
        world.second_node() as (node, both),
        world.running(two.model_copy(update={"rollout_target": both})) as job,
    ):
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await node.learns(updates=4)
        await reports.until(job, lambda now: now.ending is not None)
    assert (reports.ending, reports.faults, reports.attempts()) == ("", 0, [1] * 6)
    assert (reports.policy_ids(), reports.scores()) == (made, scores)


@pytest.mark.timeout(900)  # two jobs
async def test_a_run_that_loses_one_of_two_engines_ends_as_one_of_one_engine(world: World, run_spec: Any) -> None:
    spec, reports = run_spec(steps=6, validate_every=6), world.reports
    await world.finish(world.job(spec, name="one"))
    made, scores = reports.policy_ids(), reports.scores()
    reports.forget()

    two = world.job(replace(spec, resources=replace(spec.resources, engines=2)), name="two")
    async with (
        world.second_node() as (node, both),
        world.running(two.model_copy(update={"rollout_target": both})) as job,
    ):
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await node.generates()
        os.killpg(node.group.pid, signal.SIGKILL)
        assert len(reports.steps) < 6
        await reports.until(job, lambda now: now.ending is not None)
    assert (reports.ending, reports.faults, reports.attempts()) == ("", 0, [1] * 6)
    assert (reports.policy_ids(), reports.scores()) == (made, scores)


@pytest.mark.timeout(900)  # three jobs
@pytest.mark.parametrize("max_staleness", [0, 1])
async def test_a_killed_job_resumes_and_ends_as_one_that_was_not_killed(
    world: World, run_spec: Any, max_staleness: int
) -> None:
    changing = Hyperparameters(temperature_end=0.7, learning_rate_schedule="linear", max_staleness=max_staleness)
    spec, reports = run_spec(hyperparameters=changing), world.reports
    # Step 3 is after the checkpoint of step 2: it is lost with the job, and done again.
    await world.kill(world.job(spec), after=3)
    await world.finish(world.job(spec))

    assert sorted(reports.steps) == [1, 2, 3, 4]
    assert reports.attempts() == [1, 1, 2, 2]
    kept = [_samples(world, step) for step in (1, 2, 3, 4)]
    assert [{one.attempt for one in some} for some in kept] == [{1}, {1}, {2}, {2}]  # a repeated step is overwritten
    assert [len(some) for some in kept] == [16] * 4
    assert {one.staleness for one in kept[1]} == {max_staleness}
    assert sorted(reports.checkpoints) == [2, 4]
    for checkpoint in reports.checkpoints.values():
        # The export is the very weights that generated, sampled with and were validated.
        assert policy_id.of_folder(Path(checkpoint.uri)) == checkpoint.policy_id
        assert checkpoint.policy_id == reports.steps[checkpoint.step].policy_id
        assert checkpoint.validation.low <= checkpoint.validation_score <= checkpoint.validation.high
    # Nothing is made ahead over the checkpoint of step 2.
    assert reports.measured("staleness_mean") == [0, max_staleness, 0, max_staleness]
    for number, step in reports.steps.items():
        if number in (1, 3):
            assert step.metrics["logprob_diff_mean"] < 1e-3
        if max_staleness:
            assert step.metrics["importance_mean"] == pytest.approx(1, abs=1e-4 if number in (1, 3) else 0.1)
            assert ("time_overlapped_s" in step.metrics) == (number in (2, 4))
        assert (step.metrics["groups"], 0 <= step.metrics["verdict_passed"] <= 1) == (4, True)
    assert reports.measured("temperature") == pytest.approx([1, 0.9, 0.8, 0.7])
    rate = spec.hyperparameters.learning_rate
    assert reports.measured("learning_rate") == pytest.approx([share * rate for share in (1, 0.75, 0.5, 0.25)])
    assert [number for number, step in sorted(reports.steps.items()) if "base_score" in step.metrics] == [1]
    base = reports.steps[1].metrics
    assert base["base_score_low"] <= base["base_score"] <= base["base_score_high"]
    validated = reports.steps[4].metrics
    assert validated["validation_problems"] == 8
    assert 0 <= validated["validation_score_low"] < validated["validation_score_high"] <= 1
    assert reports.faults == 0
    assert reports.phases[:5] == ["LOADING_MODEL", "LOADING_POLICY", "VALIDATING", "GENERATING", "UPDATING"]
    assert {"SAVING", "VALIDATING"} <= set(reports.phases)

    made, scores = reports.policy_ids(), reports.scores()
    reports.forget()
    await world.finish(world.job(spec, name="whole"))
    assert (reports.policy_ids(), reports.scores()) == (made, scores)


async def test_what_an_update_finds_unfinished_goes_on_with_the_new_weights(world: World, run_spec: Any) -> None:
    """The learning rate is too small to change a weight: whatever weights its parts are of, the engine's log-probs of a
    completion are those that the trainer has for it as a whole."""
    hyper = Hyperparameters(max_staleness=3, learning_rate=1e-30, temperature_end=None)
    spec, reports = run_spec(steps=8, validate_every=8, hyperparameters=hyper), world.reports
    await world.finish(world.job(spec))
    assert (sorted(reports.steps), reports.attempts(), reports.faults) == ([*range(1, 9)], [1] * 8, 0)
    kept = [one for step in range(1, 9) for one in _samples(world, step)]
    assert len({(one.step, one.place, one.index) for one in kept}) == 8 * 16
    for one in kept:
        assert sum(span.tokens for span in one.spans) == one.tokens
        steps = [span.step for span in one.spans]
        assert steps == sorted(set(steps))
        assert one.staleness == one.step - 1 - steps[0] <= 3
    several = [one for one in kept if len(one.spans) > 1]
    assert several, "no update met a completion"
    assert max(reports.measured("staleness_max")) == max(one.staleness for one in kept) > 1
    assert max(reports.measured("logprob_diff_mean")) < 1e-3
    assert reports.measured("importance_mean") == pytest.approx([1] * 8, abs=1e-4)


@pytest.mark.timeout(900)  # two jobs
async def test_a_killed_run_of_one_prompt_a_step_knows_the_weights_of_each_token(world: World, run_spec: Any) -> None:
    hyper = Hyperparameters(max_staleness=3, batch_size=1, temperature_end=None)
    spec, reports = run_spec(steps=8, validate_every=4, hyperparameters=hyper), world.reports
    await world.kill(world.job(spec), after=6)
    await world.finish(world.job(spec))
    assert (reports.attempts(), reports.faults) == ([1] * 4 + [2] * 4, 0)
    known = {0: policy_id.of_folder(STARTER)} | {number: one.policy_id for number, one in reports.steps.items()}
    for step in range(1, 9):
        kept = _samples(world, step)
        assert [(one.place, one.index) for one in kept] == [(0, index) for index in range(4)]
        for one in kept:
            assert sum(span.tokens for span in one.spans) == one.tokens > 0
            assert [span.policy_id for span in one.spans] == [known[span.step] for span in one.spans]
            made_at = [span.step for span in one.spans]
            # Nothing is made ahead over the checkpoint of step 4.
            assert max(0 if step <= 4 else 4, step - 4) <= made_at[0]
            assert made_at == sorted({*made_at})
            assert made_at[-1] < step


async def test_a_completion_outlives_the_engine_that_began_it(world: World, run_spec: Any) -> None:
    """Two engines, one of which is killed amid completions that updates meet: what it was making is made again."""
    hyper = Hyperparameters(max_staleness=3, temperature_end=None)
    spec, reports = run_spec(steps=8, validate_every=8, hyperparameters=hyper), world.reports
    two = world.job(replace(spec, resources=replace(spec.resources, engines=2)))
    async with (
        world.second_node() as (node, both),
        world.running(two.model_copy(update={"rollout_target": both})) as job,
    ):
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await node.generates()
        os.killpg(node.group.pid, signal.SIGKILL)
        assert len(reports.steps) < 8
        await reports.until(job, lambda now: now.ending is not None)
    assert (reports.ending, reports.faults, reports.attempts()) == ("", 0, [1] * 8)
    assert len({span.policy_id for step in range(1, 9) for one in _samples(world, step) for span in one.spans}) > 2


@pytest.mark.timeout(900)  # two jobs
@pytest.mark.parametrize("algorithm", ["grpo", "dapo_steps"])
async def test_episodes_of_several_answers(algorithm: str, world: World, run_spec: Any) -> None:
    """What is learned from are the tokens that were sampled, at their places: else the engine and the trainer would
    disagree about them."""
    long = Hyperparameters(max_response_tokens=192)
    spec = run_spec(algorithm, long, steps=3, environment=EnvironmentSpec("edits"))
    reports = world.reports
    await world.finish(world.job(spec))
    assert sorted(reports.steps) == [1, 2, 3]
    for step in reports.steps.values():
        assert step.metrics["logprob_diff_mean"] < 1e-3
        assert step.metrics["logprob_diff_max"] < 0.05
        assert 1 < step.metrics["turns_mean"] <= 3
        assert 0 <= step.metrics["first_answers_passed"] <= step.metrics["verdict_passed"] + 0.5
        assert step.metrics["response_tokens_max"] <= 192
    assert reports.faults == 0
    assert 1 < reports.steps[3].metrics["validation_turns_mean"] <= 3
    assert all(policy_id.of_folder(Path(one.uri)) == one.policy_id for one in reports.checkpoints.values())
    made, scores = reports.policy_ids(), reports.scores()
    reports.forget()
    await world.finish(world.job(spec, name="again"))
    if algorithm == "grpo":  # dynamic sampling draws as many prompts as end first
        assert (reports.policy_ids(), reports.scores()) == (made, scores)


async def test_credit_by_turn(world: World, run_spec: Any) -> None:
    """The samples' advantages are not those of their episodes' rewards, and the run goes on."""
    hyper = Hyperparameters(max_response_tokens=192, turn_discount=0.9)
    spec = run_spec("grpo", hyper, steps=2, validate_every=None, environment=EnvironmentSpec("edits"))
    await world.finish(world.job(spec))
    assert sorted(world.reports.steps) == [1, 2]
    for step in world.reports.steps.values():
        assert 1 < step.metrics["turns_mean"] <= 3
        assert step.metrics["logprob_diff_mean"] < 1e-3
        assert step.metrics["grad_norm"] > 0
    assert world.reports.faults == 0
    assert len({step.policy_id for step in world.reports.steps.values()}) == 2
    groups = defaultdict[str, list[Sample]](list)
    for one in _samples(world, 1):
        groups[one.problem_id].append(one)
    told = [
        (one.advantage, (one.reward - fmean(rewards)) / (stdev(rewards) + 1e-6))
        for group in groups.values()
        for rewards in [[one.reward for one in group]]
        for one in group
    ]
    assert any(by_turn is not None and abs(by_turn - by_episode) > 0.1 for by_turn, by_episode in told)


@pytest.mark.timeout(900)  # three jobs
async def test_lora_learns_beside_a_base_that_stays_as_it_is(world: World, run_spec: Any) -> None:
    """Killed and resumed; with a reference, which is the policy without its adapters. What the engine samples with, and
    what is exported, is whole."""
    spec = run_spec(hyperparameters=Hyperparameters(lora_rank=8, kl_coefficient=0.01))
    reports = world.reports
    await world.kill(world.job(spec), after=3)
    await world.finish(world.job(spec))
    assert reports.attempts() == [1, 1, 2, 2]
    assert all(step.metrics["logprob_diff_mean"] < 1e-3 for step in reports.steps.values())
    distances = reports.measured("kl")
    assert (distances[0], distances[3] > 1e-6) == (pytest.approx(0, abs=1e-6), True)
    base = _shapes(STARTER)
    for checkpoint in reports.checkpoints.values():
        exported = Path(checkpoint.uri)
        assert policy_id.of_folder(exported) == checkpoint.policy_id == reports.steps[checkpoint.step].policy_id
        assert _shapes(exported) == base
    made, scores = reports.policy_ids(), reports.scores()
    assert len({*made, policy_id.of_folder(STARTER)}) == 5
    reports.forget()
    await world.finish(world.job(spec, name="whole"))
    assert (reports.policy_ids(), reports.scores()) == (made, scores)


def _shapes(model: Path) -> dict[str, tuple[int, ...]]:
    files = model.glob("*.safetensors")
    return {one.name: tuple(one.shape) for file in files for one in policy_id.read_safetensors(file)}


async def test_lora_on_two_ranks(world: World, run_spec: Any) -> None:
    hyper, two = Hyperparameters(lora_rank=8), Resources(accelerators_per_node=2)
    await world.finish(world.job(run_spec(hyperparameters=hyper, steps=2, resources=two)))
    assert all(step.metrics["logprob_diff_mean"] < 1e-3 for step in world.reports.steps.values())
    (checkpoint,) = world.reports.checkpoints.values()
    assert policy_id.of_folder(Path(checkpoint.uri)) == checkpoint.policy_id


@pytest.mark.parametrize("lora_rank", [0, 8])
async def test_two_ranks_with_a_reference_policy_and_a_critic(lora_rank: int, world: World, run_spec: Any) -> None:
    penalised = Hyperparameters(kl_coefficient=0.01, lora_rank=lora_rank)
    two = Resources(accelerators_per_node=2)
    await world.finish(world.job(run_spec("ppo", penalised, steps=2, resources=two)))
    assert sorted(world.reports.steps) == [1, 2]
    assert "value_loss" in world.reports.steps[2].metrics


@pytest.mark.parametrize("hyper", [Hyperparameters(), Hyperparameters(lora_rank=8, kl_coefficient=0.01)])
async def test_in_bfloat16_as_on_gpus(hyper: Hyperparameters, world: World, run_spec: Any) -> None:
    await world.finish(world.job(run_spec(hyperparameters=hyper, steps=1), dtype="bfloat16"))
    assert sorted(world.reports.steps) == [1]
    [checkpoint] = world.reports.checkpoints.values()
    exported, sent = policy_id.of_folder(Path(checkpoint.uri)), world.reports.steps[1].policy_id
    assert exported == checkpoint.policy_id == sent


async def test_a_sampler_and_a_loss_of_ones_own_train(
    world: World, run_spec: Any, install_plugin: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugin("sampler", "easy_first")
    site = str(install_plugin("loss", "unclipped"))
    monkeypatch.syspath_prepend(site)
    spec = run_spec(steps=3, validate_every=None, plugins=tuple(entry_points.installed()))
    assert [plugin.name for plugin in spec.plugins] == ["easy_first", "unclipped"]
    await world.finish(world.job(spec), PYTHONPATH=site)
    assert sorted(world.reports.steps) == [1, 2, 3]
    assert world.reports.measured("plugin_unclipped_ratio") == pytest.approx([1.0] * 3)  # learned from once


async def test_a_sampler_sees_what_the_groups_earned(
    world: World, run_spec: Any, install_plugin: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = install_plugin("sampler", "easy_first")
    spec, seen = run_spec(steps=3, validate_every=None), world.folder / "seen.jsonl"
    batch = spec.hyperparameters.batch_size
    (site / "easy_first.py").write_text(
        "import json\n\n\ndef easy_first(problems, seed, number, earned):\n"
        f"    with open({str(seen)!r}, 'a') as file:\n"
        "        print(json.dumps([number, [one['step'] for one in earned]]), file=file)\n"
        f"    return range({batch})\n"
    )
    monkeypatch.syspath_prepend(str(site))
    await world.finish(world.job(replace(spec, plugins=tuple(entry_points.installed()))), PYTHONPATH=str(site))
    assert sorted(world.reports.steps) == [1, 2, 3]
    passes = [json.loads(line) for line in seen.read_text().splitlines()]
    assert passes[:3] == [[0, []], [1, [1] * batch], [2, [1] * batch + [2] * batch]]


async def test_an_environment_of_ones_own_trains(
    world: World, run_spec: Any, install_plugin: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = str(install_plugin("environment", "hints"))
    monkeypatch.syspath_prepend(site)
    (plugin,) = entry_points.installed()
    hints, long = EnvironmentSpec("plugin:hints", 3, plugin.digest), Hyperparameters(max_response_tokens=192)
    spec = run_spec(hyperparameters=long, steps=2, validate_every=None, environment=hints)
    await world.finish(world.job(spec), PYTHONPATH=site)
    assert sorted(world.reports.steps) == [1, 2]
    for step in world.reports.steps.values():
        assert 1 < step.metrics["turns_mean"] <= 3
        assert step.metrics["logprob_diff_mean"] < 1e-3
    assert world.reports.faults == 0
    samples = _samples(world, 2)
    assert any("tests fail." in one.completion for one in samples)  # what it told
    assert {one.step for one in samples} == {2}
    assert all(one.prompt and one.advantage is not None and one.components for one in samples)
    assert all(one.failed_tests or one.detail for one in samples if one.verdict != "PASSED")


def _samples(world: World, step: int) -> list[Sample]:
    (file,) = (world.folder / "run").rglob(sample_files.name_of(step))
    return sample_files.read(file.open("rb"), Wanted())


async def test_a_cancelled_job_stops(world: World, run_spec: Any) -> None:
    world.reports.cancelled = True
    async with world.running(world.job(run_spec())) as job:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            assert await job.wait() == 0
    assert sorted(world.reports.steps) == [1]
    assert world.reports.ending is None
