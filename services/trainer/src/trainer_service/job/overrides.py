"""A job's config as verl's: pure functions from JobConfig to lists of Hydra overrides. Nothing of verl is imported.

verl's own defaults are kept where they serve; each override below is a hyperparameter of the run, a resource, a path,
or a need of the device.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from ratchet.trainer.v1 import trainer_pb2
from trainer_service.job.config import JobConfig

Override = str

# What a checkpoint holds. `hf_model` writes the exact training weights; verl's model_merger would round them to bf16.
CHECKPOINT_CONTENTS = "[model,optimizer,extra,hf_model]"

# The estimator of each algorithm, by verl's name (verl/trainer/ppo/core_algos.py, AdvantageEstimator).
ESTIMATORS = {
    trainer_pb2.ALGORITHM_GRPO: "grpo",
    trainer_pb2.ALGORITHM_DAPO: "grpo",
    trainer_pb2.ALGORITHM_PPO: "gae",
    trainer_pb2.ALGORITHM_RLOO: "rloo",
    trainer_pb2.ALGORITHM_REINFORCE_PLUS_PLUS: "reinforce_plus_plus",
}


def environment(config: JobConfig) -> dict[str, str]:
    """The environment of every process of the job."""
    shared = {
        "VERL_USE_EXTERNAL_MODULES": "trainer_service.verl_plugin",
        "VERL_LOGGING_LEVEL": "WARN",
        # verl 0.9.1 sets this itself where it starts Ray.
        "TRANSFER_QUEUE_ENABLE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        # Every import of verl warns of the engines that are not installed; TransferQueue, of each of its threads.
        "PYTHONWARNINGS": "ignore::UserWarning",
        "TQ_LOGGING_LEVEL": "ERROR",
        "WANDB_MODE": "offline",
        "MLFLOW_TRACKING_URI": f"sqlite:///{config.work_dir.absolute() / 'mlflow.db'}",
        "RAY_USAGE_STATS_ENABLED": "0",
        # A local Ray would start a Python for each CPU that it is told of.
        "RAY_prestart_worker_first_driver": "0",
        "RAY_enable_worker_prestart": "0",
        "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1",
        **config.to_env(),
    }
    if config.device == "cuda":
        return shared
    return (
        shared
        | {
            "VERL_PLATFORM": "cpu",
            # verl finds its FSDP engine under the device "cuda" only; the platform above is what it then runs on.
            "VERL_ENGINE_DEVICE": "cuda",
            # Two threads a rank were slower than one on two cores: ranks, vLLM and the sandbox share them.
            "OMP_NUM_THREADS": "1",
            # The logical GPUs of a CPU machine have no device behind them.
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        }
        | ({"GLOO_SOCKET_IFNAME": "lo"} if max(config.run_spec().resources.nodes, 1) == 1 else {})
    )


def rl_overrides(config: JobConfig, resume_from: Path | None, rollout: str) -> list[Override]:
    """Overrides of verl's `ppo_trainer` for GRPO, PPO, RLOO, DAPO and REINFORCE++.

    `resume_from`: the folder of a complete checkpoint. `rollout`: the name of the rollout adapter.
    """
    spec = config.run_spec()
    hyper = spec.hyperparameters
    dapo = spec.algorithm == trainer_pb2.ALGORITHM_DAPO
    critic = spec.algorithm == trainer_pb2.ALGORITHM_PPO
    actor = "actor_rollout_ref.actor"
    return [
        f"algorithm.adv_estimator={ESTIMATORS[spec.algorithm]}",
        f"algorithm.gamma={hyper.gamma}",
        f"algorithm.lam={hyper.gae_lambda}",
        *_data(config, "trainer_service.verl_plugin.datasets", "PromptDataset"),
        f"data.train_batch_size={hyper.batch_size}",
        f"data.max_prompt_length={hyper.max_prompt_tokens}",
        f"data.max_response_length={hyper.max_response_tokens}",
        f"data.seed={spec.seed}",
        "data.dataloader_num_workers=0",
        # verl makes a loader of the validation set even when there is none; the default size is then 0, and refused.
        *([] if spec.HasField("validation_problems") else ["data.val_batch_size=1"]),
        *_model("actor_rollout_ref.model", config),
        *_engine(f"{actor}.fsdp_config", config),
        f"{actor}.strategy=fsdp2",
        f"{actor}.use_torch_compile={_bool(config.device == 'cuda')}",
        f"{actor}.ppo_mini_batch_size={hyper.mini_batch_size}",
        f"{actor}.ppo_micro_batch_size_per_gpu={micro_batch(spec)}",
        f"{actor}.data_loader_seed={spec.seed}",
        f"{actor}.clip_ratio_low={hyper.clip_low}",
        f"{actor}.clip_ratio_high={hyper.clip_high}",
        # Dual clip's constant: 10 in DAPO (arXiv:2503.14476, the authors' released script), else verl's default of 3.
        f"{actor}.clip_ratio_c={10.0 if dapo else 3.0}",
        # Averaging over tokens leaves a masked sample no weight at all: neither in the sum nor in the count.
        f"{actor}.loss_agg_mode=token-mean",
        f"{actor}.entropy_coeff={hyper.entropy_coefficient}",
        f"{actor}.grad_clip={hyper.max_grad_norm}",
        f"{actor}.checkpoint.save_contents={CHECKPOINT_CONTENTS}",
        f"{actor}.checkpoint.load_contents=[model,optimizer,extra]",
        *_optimizer(f"{actor}.optim", hyper, hyper.learning_rate),
        *_reference(config),
        *(_critic(config) if critic else []),
        f"actor_rollout_ref.rollout.name={rollout}",
        f"actor_rollout_ref.rollout.dtype={config.dtype}",
        f"actor_rollout_ref.rollout.n={hyper.group_size}",
        f"actor_rollout_ref.rollout.temperature={hyper.temperature}",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        f"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu={micro_batch(spec)}",
        # The engine has its own process and memory: nothing of it is to be freed around a step.
        "actor_rollout_ref.rollout.free_cache_engine=False",
        # Verdicts come with the completions, so verl's reward workers have nothing to do.
        "reward.num_workers=0",
        *_dapo(dapo),
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        *_trainer(config),
        "trainer.val_before_train=False",
        # The trainer decides which steps are saved and validated; verl asks it at each step.
        "trainer.save_freq=1",
        f"trainer.test_freq={validate_every(spec)}",
        *_resume(resume_from),
        *spec.verl_overrides,
    ]


def sft_overrides(config: JobConfig, resume_from: Path | None, examples: int) -> list[Override]:
    """Overrides of verl's `sft_trainer_engine`. `examples`: how many the training set has, for the number of epochs."""
    spec = config.run_spec()
    hyper = spec.hyperparameters
    epochs = -(-spec.steps // max(examples // hyper.batch_size, 1))
    length = hyper.max_prompt_tokens + hyper.max_response_tokens
    return [
        *_data(config, "trainer_service.verl_plugin.datasets", "ExampleDataset"),
        f"data.train_batch_size={hyper.batch_size}",
        f"data.micro_batch_size_per_gpu={micro_batch(spec)}",
        "data.use_dynamic_bsz=False",
        f"data.max_length={length}",
        "data.num_workers=0",
        *_model("model", config),
        "engine.strategy=fsdp2",
        *_engine("engine", config),
        *_optimizer("optim", hyper, hyper.learning_rate),
        f"optim.clip_grad={hyper.max_grad_norm}",
        f"checkpoint.save_contents={CHECKPOINT_CONTENTS}",
        "checkpoint.load_contents=[model,optimizer,extra]",
        f"trainer.seed={spec.seed}",
        *_trainer(config, epochs=epochs),
        "trainer.save_freq=1",
        f"trainer.test_freq={validate_every(spec)}",
        *_resume(resume_from),
        *spec.verl_overrides,
    ]


def ranks_of(spec: trainer_pb2.RunSpec) -> int:
    return max(spec.resources.nodes, 1) * max(spec.resources.accelerators_per_node, 1)


def micro_batch(spec: trainer_pb2.RunSpec) -> int:
    """Sequences a pass on one rank: the largest number up to what was asked for that divides a rank's share of an
    update, as verl requires."""
    hyper = spec.hyperparameters
    sft = spec.algorithm == trainer_pb2.ALGORITHM_SFT
    sequences = hyper.batch_size if sft else hyper.mini_batch_size * hyper.group_size
    share = max(sequences // ranks_of(spec), 1)
    return max(size for size in range(1, min(hyper.micro_batch_size, share) + 1) if share % size == 0)


def validate_every(spec: trainer_pb2.RunSpec) -> int:
    """The last step is always validated; verl does so when its test_freq is above 0."""
    return spec.validate_every or spec.steps


def is_validated(spec: trainer_pb2.RunSpec, step: int) -> bool:
    return step % validate_every(spec) == 0 or step >= spec.steps


def is_saved(spec: trainer_pb2.RunSpec, step: int) -> bool:
    """A validated step is always saved: its model may be the best."""
    return is_validated(spec, step) or (spec.checkpoint_every > 0 and step % spec.checkpoint_every == 0)


def _data(config: JobConfig, module: str, dataset: str) -> Sequence[Override]:
    spec = config.run_spec()
    validated = spec.HasField("validation_problems")
    return (
        f"data.train_files={quote(spec.problems.name)}",
        f"data.val_files={quote(spec.validation_problems.name) if validated else 'null'}",
        f"data.train_max_samples={spec.problems.limit or -1}",
        f"data.val_max_samples={spec.validation_problems.limit or -1}",
        f"data.custom_cls.path=pkg://{module}",
        f"data.custom_cls.name={dataset}",
    )


def _model(prefix: str, config: JobConfig) -> Sequence[Override]:
    if config.device == "cuda":
        return (f"{prefix}.path={quote(config.base_path)}",)
    return (
        f"{prefix}.path={quote(config.base_path)}",
        f"+{prefix}.override_config.attn_implementation=sdpa",
        f"{prefix}.use_remove_padding=False",
        f"{prefix}.enable_gradient_checkpointing=False",
    )


def _engine(prefix: str, config: JobConfig) -> Sequence[Override]:
    """Mixed precision by the job's dtype (verl's default is bf16 autocast); parameters are kept in fp32 by verl."""
    precision = "fp32" if config.dtype == "float32" else "bf16"
    return (
        f"{prefix}.strategy=fsdp2",
        f"{prefix}.use_torch_compile={_bool(config.device == 'cuda')}",
        f"{prefix}.seed={config.run_spec().seed}",
        f"+{prefix}.mixed_precision.param_dtype={precision}",
        f"+{prefix}.mixed_precision.reduce_dtype=fp32",
    )


def _optimizer(prefix: str, hyper: trainer_pb2.Hyperparameters, learning_rate: float) -> Sequence[Override]:
    return (
        f"{prefix}.lr={learning_rate}",
        f"{prefix}.lr_warmup_steps={hyper.warmup_steps}",
        f"{prefix}.weight_decay={hyper.weight_decay}",
    )


def _reference(config: JobConfig) -> Sequence[Override]:
    """The base policy that the KL penalty is against; none is kept without a penalty."""
    hyper = config.run_spec().hyperparameters
    if hyper.kl_coefficient == 0:
        return ("actor_rollout_ref.actor.use_kl_loss=False",)
    return (
        "actor_rollout_ref.actor.use_kl_loss=True",
        f"actor_rollout_ref.actor.kl_loss_coef={hyper.kl_coefficient}",
        "actor_rollout_ref.ref.strategy=fsdp2",
        f"actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu={micro_batch(config.run_spec())}",
        *_engine("actor_rollout_ref.ref.fsdp_config", config),
    )


def _critic(config: JobConfig) -> Sequence[Override]:
    hyper = config.run_spec().hyperparameters
    return (
        *_model("critic.model", config),
        "critic.strategy=fsdp2",
        f"critic.ppo_micro_batch_size_per_gpu={micro_batch(config.run_spec())}",
        f"critic.grad_clip={hyper.max_grad_norm}",
        *_optimizer("critic.optim", hyper, hyper.critic_learning_rate),
        *_engine("critic.fsdp", config),
    )


def _dapo(enabled: bool) -> Sequence[Override]:
    """Dynamic sampling (arXiv:2503.14476, section 3.2): groups of one reward teach nothing and are replaced."""
    if not enabled:
        return ()
    return ("algorithm.filter_groups.enable=True", "algorithm.filter_groups.metric=reward")


def _trainer(config: JobConfig, epochs: int | None = None) -> Sequence[Override]:
    spec = config.run_spec()
    loggers = json.dumps(list(spec.loggers) or ["console"])
    return (
        f"trainer.device={config.device}",
        f"trainer.nnodes={max(spec.resources.nodes, 1)}",
        f"trainer.n_gpus_per_node={max(spec.resources.accelerators_per_node, 1)}",
        f"trainer.total_training_steps={spec.steps}",
        # RL counts epochs too and must not end by them: more than any run has.
        f"trainer.total_epochs={epochs or 10**6}",
        "trainer.project_name=ratchet",
        f"trainer.experiment_name={quote(config.run_id)}",
        f"trainer.logger={loggers}",
        f"trainer.default_local_dir={quote(str(config.work_dir / 'checkpoints'))}",
    )


def _resume(resume_from: Path | None) -> Sequence[Override]:
    if resume_from is None:
        return ("trainer.resume_mode=disable",)
    return ("trainer.resume_mode=resume_path", f"trainer.resume_from_path={quote(str(resume_from))}")


def quote(text: str) -> str:
    """A string as Hydra's override grammar takes it whatever is in it (hydra.cc, "Quoted values")."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _bool(value: bool) -> str:
    return "True" if value else "False"
