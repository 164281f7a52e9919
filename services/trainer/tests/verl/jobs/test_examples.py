"""What learns from examples and pairs, for real: SFT, DPO, and a reward model that then rewards RL. Minutes."""

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ratchet_kit import policy_id
from ratchet_kit.names import Location
from ratchet_problems import Problem, load
from ratchet_rewards import Component, Reward
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.spec import ProblemSetRef, Resources

from .world import RUNS_JOBS, STARTER, Reports, World

pytestmark = RUNS_JOBS


@pytest.fixture
def pairs(tmp_path: Path) -> ProblemSetRef:
    """Of ten problems: the reference, and the same program without its last character; and one that has no room."""
    return pairs_of(load("composed/train", limit=10), tmp_path / "pairs.jsonl", {"rejected": "no " * 200})


def pairs_of(problems: Sequence[Problem], path: Path, last: Mapping[str, str]) -> ProblemSetRef:
    """`last`: another line, as the first one is but for this."""
    lines = [
        {"problem": one.prompt, "chosen": one.references[0], "rejected": one.references[0][:-1]} for one in problems
    ]
    lines.append(lines[0] | last)
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return ProblemSetRef(str(path))


def learned(reports: Reports) -> list[tuple[float, str]]:
    """The loss of each step, and its weights."""
    return list(zip(reports.measured("loss"), reports.policy_ids(), strict=True))


@pytest.mark.parametrize("lora_rank", [0, 8])
async def test_sft(lora_rank: int, world: World, run_spec: Any) -> None:
    hyper = Hyperparameters(lora_rank=lora_rank)
    await world.finish(world.job(run_spec("sft", hyper, steps=3, validate_every=2)))
    assert sorted(world.reports.steps) == [1, 2, 3]
    assert {2, 3} == set(world.reports.checkpoints)
    assert len({*world.reports.policy_ids(), policy_id.of_folder(STARTER)}) == 4


@pytest.mark.parametrize(
    ("eos", "pad", "ends"),
    [("<|pad|>", "<|pad|>", [1, 0]), (None, None, 1)],
    ids=["another-eos", "no-eos-and-no-pad"],
)
async def test_sft_keeps_the_end_of_a_turn(
    eos: str | None, pad: str | None, ends: Any, world: World, run_spec: Any
) -> None:
    """Gemma's and Phi's tokenizers name another token than their chat templates end a turn with."""
    base = world.folder / "base"
    shutil.copytree(STARTER, base)
    changes = {"config": {"eos_token_id": ends, "pad_token_id": None}, "generation_config": {"eos_token_id": ends}}
    for name, some in (changes | {"tokenizer_config": {"eos_token": eos, "pad_token": pad}}).items():
        file = base / f"{name}.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | some))
    await world.finish(world.job(run_spec("sft", steps=3, validate_every=None), base=base))
    tuned = Path(world.reports.checkpoints[3].uri)
    assert json.loads((tuned / "config.json").read_text())["eos_token_id"] == ends
    assert policy_id.settings_of_folder(tuned) == policy_id.settings_of_folder(base)
    # What it has learned before is what it goes on to learn: the first loss is that of the model as it is.
    assert world.reports.measured("loss")[0] < 1


@pytest.mark.timeout(900)  # two jobs
async def test_a_base_without_a_chat_template_learns_to_go_on_with_texts(world: World, run_spec: Any) -> None:
    base, reports = world.folder / "base", world.reports
    shutil.copytree(STARTER, base, ignore=shutil.ignore_patterns("chat_template*"))
    few = ProblemSetRef("composed/train", limit=4)
    examples = run_spec("sft", steps=12, validate_every=None, problems=few, prompt_form="completion")
    await world.finish(world.job(examples, name="sft", base=base))
    losses = reports.measured("loss")
    assert losses[11] < losses[0] / 4
    tuned = Path(reports.checkpoints[12].uri)
    reports.forget()
    spec = run_spec(steps=3, validate_every=None, problems=few, validation_problems=few, prompt_form="completion")
    await world.finish(world.job(spec, base=tuned))
    assert sorted(reports.steps) == [1, 2, 3]
    # Without its form's prompts and ends it would pass nothing.
    assert reports.steps[1].metrics["verdict_passed"] > 0.2
    assert reports.checkpoints[3].validation_score > 0.2


@pytest.mark.timeout(900)  # three jobs
async def test_dpo_goes_on_after_a_kill_with_the_bases_log_probs(
    world: World, run_spec: Any, pairs: ProblemSetRef
) -> None:
    spec, reports = run_spec("dpo", pairs=pairs), world.reports
    await world.kill(world.job(spec), after=3)
    await world.finish(world.job(spec))
    assert reports.attempts() == [1, 1, 2, 2]
    first, last = reports.steps[1].metrics, reports.steps[4].metrics
    # At first it is its own reference: no margin, and so a loss of ln 2.
    assert first["loss"] == pytest.approx(math.log(2), abs=1e-4)
    assert first["pair_margin"] == pytest.approx(0, abs=1e-4)
    assert last["pair_margin"] > 0.01
    assert (first["problems"], first["problems_left_out"], first["validation_left_out"]) == (11, 1, 0)
    assert 0 <= first["base_score_low"] <= first["base_score"] <= first["base_score_high"] <= 1
    assert sorted(reports.checkpoints) == [2, 4]
    for checkpoint in reports.checkpoints.values():
        assert policy_id.of_folder(Path(checkpoint.uri)) == checkpoint.policy_id
        assert checkpoint.validation.low <= checkpoint.validation_score <= checkpoint.validation.high

    made, scores = learned(reports), reports.scores()
    reports.forget()
    await world.finish(world.job(spec, name="whole"))
    assert (learned(reports), reports.scores()) == (made, scores)


@pytest.mark.timeout(900)  # two jobs
@pytest.mark.parametrize(("algorithm", "lora_rank"), [("dpo", 0), ("dpo", 8), ("reward_model", None)])
async def test_two_ranks_learn_from_pairs_as_one_does(
    world: World, run_spec: Any, pairs: ProblemSetRef, algorithm: str, lora_rank: int | None
) -> None:
    hyper = Hyperparameters(lora_rank=lora_rank)
    losses = []
    for ranks in (1, 2):
        some = Resources(accelerators_per_node=ranks)
        spec = run_spec(algorithm, hyper, pairs=pairs, steps=2, validation_problems=None, resources=some)
        await world.finish(world.job(spec, name=f"ranks-{ranks}"))
        losses.append(world.reports.measured("loss"))
        world.reports.forget()
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


@pytest.mark.timeout(900)  # three jobs
async def test_a_job_that_was_killed_on_two_ranks_goes_on_on_one(world: World, run_spec: Any) -> None:
    """A sum over ranks is added in another order: what is learned after it is nearly the same."""
    reports = world.reports
    spec, one = (
        run_spec("sft", steps=4, validation_problems=None, checkpoint_every=2, resources=Resources(1, ranks))
        for ranks in (2, 1)
    )
    await world.kill(world.job(spec), after=3)
    await world.finish(world.job(one))
    assert reports.attempts() == [1, 1, 2, 2]
    crossed = [reports.measured(name) for name in ("loss", "learning_rate")]
    reports.forget()
    await world.finish(world.job(spec, name="whole"))
    whole = [reports.measured(name) for name in ("loss", "learning_rate")]
    assert crossed[0] == pytest.approx(whole[0], abs=1e-4)
    assert crossed[1] == whole[1]
    assert len({*whole[0]}) == 4


@pytest.mark.timeout(1200)  # four jobs
async def test_a_reward_model_goes_on_after_a_kill_and_then_rewards(
    world: World, run_spec: Any, pairs: ProblemSetRef, tmp_path: Path
) -> None:
    held_out = pairs_of(load("composed/validation", limit=9), tmp_path / "held-out.jsonl", {"rejected": "pass"})
    spec = run_spec("reward_model", pairs=pairs, validation_pairs=held_out, steps=10, validate_every=5)
    reports = world.reports
    await world.kill(world.job(spec), after=6)
    await world.finish(world.job(spec))
    assert reports.attempts() == [1] * 5 + [2] * 5
    assert reports.steps[1].metrics["problems_left_out"] == 1
    best = reports.checkpoints[10]
    assert best.validation.low < best.validation_score <= best.validation.high
    losses, made = reports.measured("loss"), learned(reports)
    assert sum(losses[-3:]) < 0.8 * sum(losses[:3])
    reports.forget()
    await world.finish(world.job(spec, name="whole"))
    assert learned(reports) == made

    exported = reports.checkpoints[10].uri
    judged = Component("preference", 0.3, model=Location(exported))
    reports.forget()
    rewarded = run_spec(steps=2, reward=Reward(components=(Component("tests_passed", 0.7), judged)))
    await world.finish(world.job(rewarded, name="rewarded", reward_model=exported))
    assert all(0 < value < 1 for value in reports.measured("component_preference"))
