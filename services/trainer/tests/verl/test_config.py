"""What a job's config becomes in verl. Pure: runs without verl."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ratchet_rewards import Reward
from trainer_service.domain.spec import verl_settings
from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.spec import ProblemSetRef, Resources
from trainer_service.domain.spec.thresholds import Thresholds
from trainer_service.job.samples.prompting import system_of
from trainer_service.verl import config
from trainer_service.verl.algorithms import VERL_ALGORITHMS
from trainer_service.verl.config import (
    dpo_overrides,
    quote,
    reward_model_overrides,
    rl_overrides,
    sft_overrides,
)
from trainer_service.verl.environment import environment


def settings(overrides: list[str]) -> dict[str, str]:
    return dict(override.lstrip("+").split("=", 1) for override in overrides)


@pytest.mark.parametrize(("algorithm", "estimator"), [("grpo", config.GDPO), ("dapo", config.GDPO), ("rloo", "rloo")])
def test_gdpo_is_normalised_over_the_batch_in_place_of_the_group(
    algorithm: str, estimator: str, make_job: Any, make_complete_spec: Any
) -> None:
    spec = make_complete_spec(algorithm=algorithm, reward=Reward("balanced", combination="gdpo"))
    assert settings(rl_overrides(make_job(spec), None))["algorithm.adv_estimator"] == estimator


@pytest.mark.parametrize("shares_gpu", [False, True])
def test_what_learns_leaves_a_shared_gpu_between_its_passes(
    shares_gpu: bool, make_job: Any, make_complete_spec: Any
) -> None:
    resources = Resources(device="cuda", shares_gpu=shares_gpu)
    kept = Hyperparameters(kl_coefficient=0.1)
    found = settings(
        rl_overrides(make_job(make_complete_spec(algorithm="ppo", hyperparameters=kept, resources=resources)), None)
    )
    for place in ("actor_rollout_ref.actor.fsdp_config", "actor_rollout_ref.ref.fsdp_config", "critic.fsdp"):
        assert [found.get(f"{place}.{part}_offload") for part in ("param", "optimizer")] == [
            "True" if shares_gpu else None
        ] * 2


def test_hyperparameters_reach_verl(make_job: Any, make_complete_spec: Any) -> None:
    spec = make_complete_spec(
        steps=10,
        seed=7,
        validate_every=4,
        resources=Resources(accelerators_per_node=2),
        validation_problems=ProblemSetRef("composed/validation", limit=32),
        hyperparameters=Hyperparameters(
            learning_rate=1e-4, batch_size=8, group_size=4, mini_batch_size=4, clip_high=0.28, temperature=0.9
        ),
    )
    config = settings(rl_overrides(make_job(spec), None))
    assert config["data.train_batch_size"] == "8"
    assert config["actor_rollout_ref.rollout.n"] == "4"
    assert config["actor_rollout_ref.actor.ppo_mini_batch_size"] == "4"
    assert config["actor_rollout_ref.actor.use_dynamic_bsz"] == "True"
    assert config["actor_rollout_ref.actor.ppo_max_token_len_per_gpu"] == "1024"
    assert config["actor_rollout_ref.actor.optim.lr"] == "0.0001"
    assert config["actor_rollout_ref.actor.clip_ratio_high"] == "0.28"
    assert config["actor_rollout_ref.rollout.temperature"] == "0.9"
    assert config["trainer.n_gpus_per_node"] == "2"
    assert config["trainer.total_training_steps"] == "10"
    assert config["trainer.test_freq"] == "4"
    assert config["trainer.logger"] == '["console"]'
    assert config["data.val_max_samples"] == "32"
    assert config["data.train_max_samples"] == "-1"


def test_the_base_is_validated_where_a_collapse_could_be_stopped(make_job: Any, make_complete_spec: Any) -> None:
    def before_training(resume_from: Path | None = None, **changes: Any) -> str:
        spec = {"steps": 10, "validate_every": 4, "validation_problems": ProblemSetRef("composed/validation")}
        job = make_job(make_complete_spec(**spec | changes))
        return settings(rl_overrides(job, resume_from))["trainer.val_before_train"]

    assert before_training() == "True"
    assert before_training(resume_from=Path("/runs/1/checkpoints/global_step_4")) == "False"
    assert before_training(validate_every=None) == "False"
    assert before_training(validate_every=10) == "False"
    assert before_training(validation_problems=None) == "False"
    assert before_training(thresholds=Thresholds(collapse_confidence=0)) == "False"


def test_every_algorithm_that_generates_has_a_row() -> None:
    assert set(VERL_ALGORITHMS) == {name for name, row in ALGORITHMS.items() if row.is_online}


@pytest.mark.parametrize(
    ("algorithm", "estimator"),
    [
        ("grpo", "grpo"),
        ("ppo", "gae"),
        ("rloo", "rloo"),
        ("dapo", "grpo"),
        ("reinforce_plus_plus", "reinforce_plus_plus"),
        ("remax", "remax"),
        ("dr_grpo", "grpo"),
        ("gspo", "grpo"),
        ("cispo", "grpo"),
        ("dapo_steps", "gae"),
    ],
)
def test_each_algorithm_has_its_estimator(
    make_job: Any, make_complete_spec: Any, algorithm: str, estimator: str
) -> None:
    config = settings(rl_overrides(make_job(make_complete_spec(algorithm=algorithm)), None))
    assert config["algorithm.adv_estimator"] == estimator
    assert ("critic.optim.lr" in config) == (algorithm in ("ppo", "dapo_steps"))
    assert ("algorithm.filter_groups.enable" in config) == (algorithm in ("dapo", "dapo_steps"))


def test_a_reference_policy_is_kept_only_for_a_kl_penalty(make_job: Any, make_complete_spec: Any) -> None:
    without = settings(rl_overrides(make_job(), None))
    assert without["actor_rollout_ref.actor.use_kl_loss"] == "False"
    penalised = make_complete_spec(hyperparameters=Hyperparameters(kl_coefficient=0.02))
    with_reference = settings(rl_overrides(make_job(penalised), None))
    assert with_reference["actor_rollout_ref.actor.kl_loss_coef"] == "0.02"
    assert with_reference["actor_rollout_ref.ref.strategy"] == "fsdp2"


def test_the_penalty_has_one_place(make_job: Any, make_complete_spec: Any) -> None:
    hyper = Hyperparameters(kl_coefficient=0.02, kl_in_reward=True)
    config = settings(rl_overrides(make_job(make_complete_spec(hyperparameters=hyper)), None))
    assert config["algorithm.use_kl_in_reward"] == "True"
    assert config["algorithm.kl_ctrl.kl_coef"] == "0.02"
    assert config["actor_rollout_ref.actor.use_kl_loss"] == "False"
    assert "algorithm.rollout_correction.bypass_mode" not in config  # its log-probs are needed before the update


def test_the_device_is_config_only(make_job: Any, make_complete_spec: Any) -> None:
    jobs = [make_job(make_complete_spec(resources=Resources(device=device))) for device in ("cpu", "cuda")]
    cpu, cuda = (settings(rl_overrides(job, None)) for job in jobs)
    assert cpu["trainer.device"] == "cpu"
    assert cuda["trainer.device"] == "cuda"
    assert cpu["actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype"] == "fp32"
    assert environment(jobs[0])["VERL_PLATFORM"] == "cpu"
    assert "VERL_PLATFORM" not in environment(jobs[1])


@pytest.mark.parametrize("installed", [True, False])
def test_attention_is_pytorchs_where_flash_attn_is_missing(
    make_job: Any, make_complete_spec: Any, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    monkeypatch.setattr(config, "has_flash_attention", lambda: installed)
    job = make_job(make_complete_spec(algorithm="ppo", resources=Resources(device="cuda")))
    composed = settings(rl_overrides(job, None)) | settings(sft_overrides(job, None))
    for model in ("actor_rollout_ref.model", "critic.model", "model"):
        assert (composed.get(f"{model}.override_config.attn_implementation") == "sdpa") is not installed
        assert (composed.get(f"{model}.use_remove_padding") == "False") is not installed
        assert (composed.get(f"{model}.use_fused_kernels") == "True") is (model != "critic.model")


def test_a_job_after_one_that_ran_out_of_memory_takes_half_as_much_at_a_time(
    make_job: Any, make_complete_spec: Any
) -> None:
    chosen = Hyperparameters(
        max_prompt_tokens=100, max_response_tokens=100, micro_batch_tokens=2048, gradient_checkpointing=False
    )
    spec = make_complete_spec(algorithm="ppo", hyperparameters=chosen)
    first, second = (settings(rl_overrides(make_job(spec, out_of_memory=lost), None)) for lost in (0, 1))
    for name in ("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "critic.ppo_infer_max_token_len_per_gpu"):
        assert (first[name], second[name]) == ("2048", "1024")
    name = "actor_rollout_ref.model.enable_gradient_checkpointing"
    assert (first[name], second[name]) == ("False", "True")


def test_in_bfloat16_and_where_they_may_be_stale_samples_are_weighted_by_how_likely_the_trainer_finds_them(
    make_job: Any, make_complete_spec: Any
) -> None:
    beside = make_job(make_complete_spec(hyperparameters=Hyperparameters(max_staleness=1)))
    assert settings(rl_overrides(beside, None))["algorithm.rollout_correction.rollout_is"] == "token"
    assert (beside.keeps_sent, make_job().keeps_sent, make_job(dtype="bfloat16").keeps_sent) == (True, False, True)
    correction = "algorithm.rollout_correction.rollout_is"
    assert correction not in settings(rl_overrides(make_job(), None))
    assert settings(rl_overrides(make_job(dtype="bfloat16"), None))[correction] == "token"


@pytest.mark.parametrize(
    ("mini_batch_size", "override", "once"),
    [
        (8, "actor_rollout_ref.actor.shuffle=True", True),
        (4, "actor_rollout_ref.actor.shuffle=True", False),
        (8, "actor_rollout_ref.actor.ppo_epochs=2", False),
        (8, "algorithm.rollout_correction.rollout_is_batch_normalize=True", False),
    ],
)
def test_old_log_probs_are_computed_where_a_batch_is_learned_from_more_than_once(
    make_job: Any, make_complete_spec: Any, mini_batch_size: int, override: str, once: bool
) -> None:
    hyper = Hyperparameters(batch_size=8, mini_batch_size=mini_batch_size)
    job = make_job(make_complete_spec(hyperparameters=hyper, verl_overrides=(override,)))
    assert ("algorithm.rollout_correction.bypass_mode" in settings(rl_overrides(job, None))) is once


@pytest.mark.parametrize(
    ("cores", "ranks", "staleness", "threads"), [(2, 1, 0, 2), (2, 1, 1, 1), (1, 1, 1, 1), (4, 2, 0, 2), (4, 2, 1, 2)]
)
def test_a_lone_rank_leaves_a_core_to_what_is_sampled_meanwhile(
    cores: int,
    ranks: int,
    staleness: int,
    threads: int,
    make_job: Any,
    make_complete_spec: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(cores)))
    hyper = Hyperparameters(max_staleness=staleness)
    job = make_job(make_complete_spec(hyperparameters=hyper, resources=Resources(accelerators_per_node=ranks)))
    assert environment(job)["OMP_NUM_THREADS"] == str(threads)


def test_loopback_is_for_one_node_only(make_job: Any, make_complete_spec: Any) -> None:
    assert environment(make_job())["GLOO_SOCKET_IFNAME"] == "lo"
    two_nodes = make_complete_spec(resources=Resources(nodes=2))
    assert "GLOO_SOCKET_IFNAME" not in environment(make_job(two_nodes))


def test_the_users_overrides_come_last(make_job: Any, make_complete_spec: Any) -> None:
    spec = make_complete_spec(algorithm="dapo", verl_overrides=("actor_rollout_ref.actor.clip_ratio_c=5.0",))
    assert settings(rl_overrides(make_job(spec), None))["actor_rollout_ref.actor.clip_ratio_c"] == "5.0"


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_what_ratchet_sets_is_not_a_callers_to_set(make_job: Any, make_complete_spec: Any, algorithm: str) -> None:
    hyperparameters = Hyperparameters(kl_coefficient=0.1) if ALGORITHMS[algorithm].is_online else Hyperparameters()
    job = make_job(make_complete_spec(algorithm=algorithm, hyperparameters=hyperparameters))
    if job.algorithm.takes_examples:
        assert not set(settings(sft_overrides(job, Path("/c")))) & set(verl_settings.EXAMPLES)
        return
    if job.algorithm.makes_reward_model:
        assert not set(settings(reward_model_overrides(job, Path("/c")))) & set(verl_settings.PAIRS)
        return
    if job.algorithm.takes_pairs:
        assert not set(settings(dpo_overrides(job, Path("/c")))) & set(verl_settings.PAIRS)
        return
    of_the_algorithm = settings(list(VERL_ALGORITHMS[algorithm].overrides))
    assert not (set(settings(rl_overrides(job, Path("/c")))) - set(of_the_algorithm)) & set(verl_settings.RL)


def test_resuming_names_the_checkpoint(make_job: Any) -> None:
    config = settings(rl_overrides(make_job(), Path("/runs/a b/global_step_4")))
    assert config["trainer.resume_mode"] == "resume_path"
    assert config["trainer.resume_from_path"] == "'/runs/a b/global_step_4'"


def test_sft_has_epochs_enough_for_its_steps(make_job: Any, make_complete_spec: Any) -> None:
    hyperparameters = Hyperparameters(batch_size=8, max_prompt_tokens=96, max_response_tokens=64)
    spec = make_complete_spec(algorithm="sft", steps=10, hyperparameters=hyperparameters)
    config = settings(sft_overrides(make_job(spec), None))
    # Even where a batch is all that there is; verl stops at the last step.
    assert (config["trainer.total_epochs"], config["trainer.total_training_steps"]) == ("10", "10")
    assert config["data.max_length"] == "160"


def test_dpo_reads_pairs_and_validates_by_itself(make_job: Any, make_complete_spec: Any) -> None:
    spec = make_complete_spec(algorithm="dpo", validation_problems=ProblemSetRef("composed/validation"))
    config = settings(dpo_overrides(make_job(spec), None))
    assert (config["data.train_files"], config["data.val_files"]) == ("'pairs.jsonl'", "null")
    assert config["data.custom_cls.name"] == "PairDataset"
    assert config["trainer.balance_batch"] == "False"


def test_a_reward_model_reads_conversations_and_has_no_logits(make_job: Any, make_complete_spec: Any) -> None:
    config = settings(reward_model_overrides(make_job(make_complete_spec(algorithm="reward_model")), None))
    assert config["data.custom_cls.name"] == "ConversationPairDataset"
    assert (config["data.val_files"], config["model.use_fused_kernels"]) == ("null", "False")


def test_a_run_without_validation_problems_has_none(make_job: Any, make_complete_spec: Any) -> None:
    bare = replace(make_complete_spec(), validation_problems=None)
    config = settings(rl_overrides(make_job(bare), None))
    assert (config["data.val_files"], config["data.val_max_samples"]) == ("null", "-1")


@pytest.mark.parametrize("system", ["", "Be brief.", 'It\'s ${b}\\d at 100 %:\n\t"{x}" \\', "日本 \\${c}"])
def test_a_system_is_read_as_it_was_written(system: str, make_job: Any, make_complete_spec: Any) -> None:
    told = settings(sft_overrides(make_job(make_complete_spec(algorithm="sft", system=system)), None))["data.system"]
    assert (told[0], told[-1], {*told[1:-1]} & {*"\\$'\n"}) == ("'", "'", set())
    assert system_of(told[1:-1]) == system


@pytest.mark.parametrize(("text", "quoted"), [("a,b", "'a,b'"), ("it's", r"'it\'s'"), ("a\\b", r"'a\\b'")])
def test_quotes_keep_hydra_from_reading_a_string(text: str, quoted: str) -> None:
    assert quote(text) == quoted


@pytest.mark.parametrize("refused", [False, True])
def test_long_prompts_are_left_out_unless_they_are_refused(
    make_job: Any, make_complete_spec: Any, refused: bool
) -> None:
    job = make_job(make_complete_spec(refuse_long_prompts=refused))
    for overrides in (rl_overrides(job, None), sft_overrides(job, None)):
        assert settings(overrides)["data.filter_overlong_prompts"] == str(not refused)


def test_traced_steps_reach_verl(make_job: Any, make_complete_spec: Any) -> None:
    made = settings(rl_overrides(make_job(make_complete_spec(profile_steps=(3, 2))), None))
    assert made["global_profiler.steps"] == "[2, 3]"
    assert made["global_profiler.save_path"].endswith("/record/profile'")
    assert not any("profiler" in name for name in settings(rl_overrides(make_job(make_complete_spec()), None)))
