"""Settings of verl that a caller gives: numbers and choices, never code, paths or what Ratchet sets itself."""

import re
from typing import Any

import pytest

from ratchet_kit.faults import Faults
from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.verl_settings import EXAMPLES, RL, check, check_used


def faults_of(*overrides: str, algorithm: str = "grpo") -> dict[str, str]:
    faults = Faults()
    check(overrides, ALGORITHMS[algorithm], faults)
    return {fault.field: fault.description for fault in faults.violations}


@pytest.mark.parametrize(
    "override",
    [
        "actor_rollout_ref.actor.fsdp_config.param_offload=True",
        "actor_rollout_ref.actor.optim.betas=[0.9, 0.95]",
        "actor_rollout_ref.actor.clip_ratio_c=5.0",
        "critic.cliprange_value=1e-2",
        "algorithm.rollout_correction.rollout_is=token",
        "trainer.balance_batch=false",
    ],
)
def test_numbers_flags_and_choices_are_taken(override: str) -> None:
    assert faults_of(override) == {}


@pytest.mark.parametrize(
    "name",
    [
        # code, modules and paths
        "data.custom_cls.path",
        "data.custom_cls.name",
        "data.train_files",
        "data.tokenizer",
        "data.trust_remote_code",
        "actor_rollout_ref.model.external_lib",
        "actor_rollout_ref.model.trust_remote_code",
        "actor_rollout_ref.model.path",
        "actor_rollout_ref.model.custom_chat_template",
        "actor_rollout_ref.model.override_config.attn_implementation",
        "actor_rollout_ref.model._target_",
        "actor_rollout_ref.actor._target_",
        "actor_rollout_ref.actor.optim.optimizer_impl",
        "actor_rollout_ref.actor.optim.optimizer",
        "actor_rollout_ref.actor.optim.override_optimizer_config",
        "actor_rollout_ref.actor.profiler.finish_hook_cmd",
        "actor_rollout_ref.actor.profiler.save_path",
        "actor_rollout_ref.rollout.agent.agent_loop_config_path",
        "actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module",
        "actor_rollout_ref.rollout.engine_kwargs.vllm.worker_cls",
        "reward.custom_reward_function.path",
        "trainer.checkpoint_callback_class",
        "trainer.rollout_data_dir",
        "trainer.resume_from_path",
        "trainer.resume_mode",
        "trainer.v1.sampler.custom_sampler.path",
        "ray_kwargs.ray_init.runtime_env",
        "hydra.run.dir",
        "hydra.searchpath",
        # what Ratchet sets itself
        "actor_rollout_ref.rollout.n",
        "actor_rollout_ref.rollout.name",
        "trainer.total_training_steps",
        "trainer.default_local_dir",
        "trainer.nnodes",
        "data.train_batch_size",
        # what there is not
        "trainer.x",
    ],
)
def test_all_else_is_refused_by_its_name(name: str) -> None:
    for sign in ("", "+", "++", "~"):
        assert name in faults_of(f"{sign}{name}=evil")["verl_overrides[0]"]


@pytest.mark.parametrize(
    "value",
    [
        "${oc.env:HOME}",
        "pkg://os",
        "{_target_:os.system}",
        "'a'",
        "",
        "1,2",
        "True,trainer.x=1",
        "choice(1,2)",
        "int(1)",
        "True\n",
        "٣",
    ],
)
def test_a_value_is_of_its_kind(value: str) -> None:
    assert [name for name in RL if not faults_of(f"{name}={value}")] == []
    assert [name for name in EXAMPLES if not faults_of(f"{name}={value}", algorithm="sft")] == []


def test_what_is_rewarded_the_spec_says() -> None:
    for name in ("reward.custom_reward_function.path", "custom_reward_function.path", "algorithm.gdpo_reward_weights"):
        assert "the spec's reward sets it" in faults_of(f"{name}=evil.py")["verl_overrides[0]"]


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("algorithm.use_kl_in_reward=true", "kl_in_reward say it"),
        ("algorithm.kl_ctrl.type=adaptive", "kl_in_reward say it"),
        ("actor_rollout_ref.actor.optim.lr_scheduler_type=cosine", "learning_rate_schedule and"),
        ("critic.optim.min_lr_ratio=0.1", "hyperparameter learning_rate_end_ratio says"),
        ("actor_rollout_ref.actor.policy_loss.loss_mode=gspo", "GSPO is an algorithm"),
        ("algorithm.adv_estimator=grpo", "the spec's algorithm says it"),
        ("data.train_files=a.parquet", "the spec's problems say it"),
        ("data.train_batch_size=64", "hyperparameter batch_size"),
        ("data.custom_cls.path=mine.py", "kind dataset"),
        ("data.sampler.class_path=mine.py", "kind sampler"),
        ("actor_rollout_ref.rollout.n=16", "hyperparameter group_size"),
        ("actor_rollout_ref.rollout.gpu_memory_utilization=0.5", "the rollout service"),
        ("actor_rollout_ref.actor.optim.lr=1e-6", "hyperparameter learning_rate says"),
        ("critic.optim.lr=1e-6", "hyperparameter critic_learning_rate"),
        ("actor_rollout_ref.actor.clip_ratio_high=0.3", "hyperparameter clip_high says"),
        ("actor_rollout_ref.actor.clip_ratio=0.3", "hyperparameters clip_low and clip_high say"),
        ("critic.optim.num_cycles=1", "learning_rate_schedule and learning_rate_end_ratio say"),
        ("optim.clip_grad=2", "hyperparameter max_grad_norm says"),
        ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4", "micro_batch_tokens"),
        ("actor_rollout_ref.model.path=a", "the spec's base"),
        ("trainer.logger=[wandb]", "the spec's loggers"),
        ("trainer.total_epochs=3", "the spec's steps"),
        ("trainer.test_freq=5", "validate_every"),
        ("trainer.n_gpus_per_node=8", "the spec's resources"),
        ("reward_model.enable=true", "the spec's reward sets it"),
    ],
)
def test_what_is_a_field_is_no_setting(override: str, hint: str) -> None:
    assert hint in faults_of(override)["verl_overrides[0]"]


LOSS = "actor_rollout_ref.actor.policy_loss"


@pytest.mark.parametrize(
    ("algorithm", "overrides", "hint"),
    [
        ("grpo", ("critic.cliprange_value=0.5",), "GRPO has no critic"),
        ("grpo", ("trainer.critic_warmup=3",), "GRPO has no critic"),
        ("ppo", ("critic.cliprange_value=0.5", "trainer.critic_warmup=3"), ""),
        ("grpo", ("algorithm.norm_adv_by_std_in_grpo=false",), ""),
        ("rloo", ("algorithm.norm_adv_by_std_in_grpo=true",), "RLOO divides by no deviation"),
        ("dr_grpo", ("algorithm.norm_adv_by_std_in_grpo=true",), "DR_GRPO divides by no deviation"),
        ("gspo", (f"{LOSS}.loss_mode=gpg",), "the loss is GSPO's own"),
        ("grpo", (f"{LOSS}.loss_mode=gpg",), ""),
        ("cispo", ("actor_rollout_ref.actor.clip_ratio_c=3",), "only the loss vanilla reads it"),
        ("grpo", ("actor_rollout_ref.actor.clip_ratio_c=3",), ""),
        ("grpo", (f"{LOSS}.clip_cov_ratio=0.1",), "only the loss clip_cov reads it"),
        ("grpo", (f"{LOSS}.loss_mode=clip_cov", f"{LOSS}.clip_cov_ratio=0.1"), ""),
        ("grpo", ("actor_rollout_ref.actor.kl_loss_type=abs",), "kl_coefficient is 0"),
        ("grpo", ("actor_rollout_ref.ref.fsdp_config.param_offload=true",), "kl_coefficient is 0"),
    ],
)
def test_a_setting_without_effect_is_refused(
    algorithm: str, overrides: tuple[str, ...], hint: str, make_complete_spec: Any
) -> None:
    faults = Faults()
    spec = make_complete_spec(algorithm=algorithm, verl_overrides=overrides)
    check_used(spec, ALGORITHMS[algorithm], faults)
    said = "; ".join(fault.description for fault in faults.violations)
    assert said.endswith(hint)
    assert bool(said) == bool(hint)


@pytest.mark.parametrize("in_reward", [True, False])
def test_the_kind_of_kl_is_that_of_the_loss(in_reward: bool, make_complete_spec: Any) -> None:
    faults = Faults()
    hyper = Hyperparameters(kl_coefficient=0.1, kl_in_reward=in_reward)
    spec = make_complete_spec(hyperparameters=hyper, verl_overrides=("actor_rollout_ref.actor.kl_loss_type=abs",))
    check_used(spec, ALGORITHMS["grpo"], faults)
    assert bool(faults) == in_reward


def test_every_fault_is_named() -> None:
    found = faults_of("trainer.balance_batch=true", "data.custom_cls.path=evil.py", "trainer.balance_batch=false", "x")
    assert set(found) == {"verl_overrides[1]", "verl_overrides[2]", "verl_overrides[3]"}


def test_examples_have_settings_of_their_own() -> None:
    assert faults_of("engine.param_offload=true", algorithm="sft") == {}
    assert "engine.param_offload" in faults_of("engine.param_offload=true")["verl_overrides[0]"]


def test_no_setting_names_code_or_a_place() -> None:
    suspicious = re.compile(r"path|module|class|cls|_target_|lib|impl|hook|cmd|dir|file|code|kwargs|optimizer$")
    assert [name for name in {*RL, *EXAMPLES} if suspicious.search(name.replace("fsdp_config", ""))] == []
