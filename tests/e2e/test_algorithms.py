"""Every algorithm takes three steps and more through the trainer service: `make e2e-full`."""

import pytest

from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import Client, json_lines
from ratchet_problems import load

from .conftest import Platform
from .test_main_job import grpo

pytestmark = [pytest.mark.e2e, pytest.mark.full, pytest.mark.timeout(1500)]

ALGORITHMS = [name for name, number in trainer_pb2.Algorithm.items() if number]
OF_PAIRS = ("ALGORITHM_DPO", "ALGORITHM_REWARD_MODEL")
OF_EXAMPLES = ("ALGORITHM_SFT", *OF_PAIRS)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_three_steps(platform: Platform, client: Client, name: str) -> None:
    spec = grpo(steps=3)
    spec.algorithm = trainer_pb2.Algorithm.Value(name)
    spec.output_model = ""
    if name in ("ALGORITHM_SFT", "ALGORITHM_REWARD_MODEL"):
        spec.ClearField("reward")
    if name == "ALGORITHM_REWARD_MODEL":
        spec.ClearField("validation_problems")
    if name in OF_PAIRS:
        spec.ClearField("problems")
        spec.pairs.name = pairs_of_references(platform)
    if name in OF_EXAMPLES:
        spec.hyperparameters.ClearField("group_size")
    run = client.runs.wait(client.runs.create(spec).id)
    assert run.state == trainer_pb2.Run.STATE_SUCCEEDED, run.failure
    assert run.step == 3
    key = "loss" if name in OF_EXAMPLES else "reward_mean"
    assert [step.number for step in client.runs.steps(run.id) if key in step.metrics] == [1, 2, 3]
    assert list(client.runs.checkpoints(run.id))


def pairs_of_references(platform: Platform) -> str:
    """The name of a file: of each problem its reference, and the same without its last character."""
    file = platform.home.path / "problems" / "pairs.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    problems = load("composed/train", limit=64)
    rows = (
        {"problem": one.prompt, "chosen": one.references[0], "rejected": one.references[0][:-1]} for one in problems
    )
    json_lines.write(rows, file)
    return str(file)


@pytest.mark.parametrize("name", ["ALGORITHM_GRPO", "ALGORITHM_SFT"])
def test_a_run_ends_with_the_step_that_spends_its_tokens(client: Client, name: str) -> None:
    spec = grpo(steps=6)
    spec.algorithm = trainer_pb2.Algorithm.Value(name)
    spec.output_model = ""
    spec.max_tokens = 1
    if name == "ALGORITHM_SFT":
        spec.ClearField("reward")
        spec.hyperparameters.ClearField("group_size")
    run = client.runs.wait(client.runs.create(spec).id)
    assert run.state == trainer_pb2.Run.STATE_SUCCEEDED, run.failure
    (step,) = client.runs.steps(run.id)
    assert run.tokens == step.metrics["tokens"] == step.metrics["tokens_total"] > 100
    assert "validation_score" in step.metrics
    assert run.best_checkpoint.step == 1


def test_two_ranks(client: Client) -> None:
    spec = grpo(steps=3)
    spec.resources.accelerators_per_node = 2
    spec.output_model = ""
    run = client.runs.wait(client.runs.create(spec).id)
    assert run.state == trainer_pb2.Run.STATE_SUCCEEDED, run.failure
