from pathlib import Path

import pytest

from ratchet.trainer.v1 import trainer_pb2
from trainer_service.job.overrides import (
    environment,
    is_saved,
    is_validated,
    micro_batch,
    quote,
    rl_overrides,
    sft_overrides,
)


def settings(overrides: list[str]) -> dict[str, str]:
    return dict(override.lstrip("+").split("=", 1) for override in overrides)


def test_hyperparameters_reach_verl(job):
    config = settings(rl_overrides(job(), None, "ratchet"))
    assert config["data.train_batch_size"] == "8"
    assert config["actor_rollout_ref.rollout.n"] == "4"
    assert config["actor_rollout_ref.actor.optim.lr"] == "0.0001"
    assert config["actor_rollout_ref.actor.clip_ratio_high"] == "0.28"
    assert config["actor_rollout_ref.rollout.temperature"] == "0.9"
    assert config["trainer.n_gpus_per_node"] == "2"
    assert config["trainer.total_training_steps"] == "10"
    assert config["data.val_max_samples"] == "32"
    assert config["data.train_max_samples"] == "-1"


@pytest.mark.parametrize(
    ("algorithm", "estimator"),
    [
        ("GRPO", "grpo"),
        ("PPO", "gae"),
        ("RLOO", "rloo"),
        ("DAPO", "grpo"),
        ("REINFORCE_PLUS_PLUS", "reinforce_plus_plus"),
    ],
)
def test_each_algorithm_has_its_estimator(job, spec, algorithm: str, estimator: str):
    chosen = spec(algorithm=trainer_pb2.Algorithm.Value(f"ALGORITHM_{algorithm}"))
    config = settings(rl_overrides(job(chosen), None, "ratchet"))
    assert config["algorithm.adv_estimator"] == estimator
    assert ("critic.optim.lr" in config) == (algorithm == "PPO")
    assert ("algorithm.filter_groups.enable" in config) == (algorithm == "DAPO")


def test_a_reference_policy_is_kept_only_for_a_kl_penalty(job, spec):
    without = settings(rl_overrides(job(), None, "ratchet"))
    assert without["actor_rollout_ref.actor.use_kl_loss"] == "False"
    penalised = spec(hyperparameters=trainer_pb2.Hyperparameters(kl_coefficient=0.02))
    with_reference = settings(rl_overrides(job(penalised), None, "ratchet"))
    assert with_reference["actor_rollout_ref.actor.kl_loss_coef"] == "0.02"
    assert with_reference["actor_rollout_ref.ref.strategy"] == "fsdp2"


def test_the_device_is_config_only(job):
    cpu, cuda = (settings(rl_overrides(job(device=device), None, "ratchet")) for device in ("cpu", "cuda"))
    assert cpu["trainer.device"] == "cpu"
    assert cuda["trainer.device"] == "cuda"
    assert cpu["actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype"] == "fp32"
    assert "actor_rollout_ref.model.override_config.attn_implementation" not in cuda
    assert "VERL_PLATFORM" not in environment(job(device="cuda"))
    assert environment(job())["VERL_PLATFORM"] == "cpu"


def test_loopback_is_for_one_node_only(job, spec):
    assert environment(job())["GLOO_SOCKET_IFNAME"] == "lo"
    assert "GLOO_SOCKET_IFNAME" not in environment(job(spec(resources=trainer_pb2.Resources(nodes=2))))


def test_the_users_overrides_come_last(job, spec):
    overrides = rl_overrides(job(spec(verl_overrides=["data.train_batch_size=3"])), None, "ratchet")
    assert settings(overrides)["data.train_batch_size"] == "3"


def test_resuming_names_the_checkpoint(job):
    config = settings(rl_overrides(job(), Path("/runs/a b/global_step_4"), "ratchet"))
    assert config["trainer.resume_mode"] == "resume_path"
    assert config["trainer.resume_from_path"] == "'/runs/a b/global_step_4'"


def test_sft_has_epochs_enough_for_its_steps(job, spec):
    config = settings(sft_overrides(job(spec(algorithm=trainer_pb2.ALGORITHM_SFT)), None, examples=20))
    # 20 examples make 2 batches of 8; 10 steps need 5 passes.
    assert config["trainer.total_epochs"] == "5"
    assert config["data.max_length"] == "160"


def test_a_run_without_validation_problems_has_none(job, spec):
    bare = spec()
    bare.ClearField("validation_problems")
    assert settings(rl_overrides(job(bare), None, "ratchet"))["data.val_files"] == "null"


def test_steps_that_are_validated_are_saved_too(spec):
    chosen = spec(checkpoint_every=3)
    assert [step for step in range(1, 11) if is_validated(chosen, step)] == [4, 8, 10]
    assert [step for step in range(1, 11) if is_saved(chosen, step)] == [3, 4, 6, 8, 9, 10]


def test_validation_at_the_end_only(spec):
    chosen = spec()
    chosen.validate_every = 0
    assert [step for step in range(1, 11) if is_validated(chosen, step)] == [10]


@pytest.mark.parametrize(("text", "quoted"), [("a,b", "'a,b'"), ("it's", r"'it\'s'"), ("a\\b", r"'a\\b'")])
def test_quotes_keep_hydra_from_reading_a_string(text: str, quoted: str):
    assert quote(text) == quoted


@pytest.mark.parametrize(("asked", "ranks", "given"), [(16, 1, 16), (16, 2, 8), (5, 1, 4), (64, 2, 8)])
def test_a_micro_batch_divides_each_ranks_share(spec, asked: int, ranks: int, given: int):
    """An update is of 4 prompts with 4 completions."""
    chosen = spec(
        hyperparameters=trainer_pb2.Hyperparameters(micro_batch_size=asked),
        resources=trainer_pb2.Resources(accelerators_per_node=ranks),
    )
    assert micro_batch(chosen) == given
