"""A job's config as verl's: functions from JobConfig to lists of Hydra overrides. Nothing of verl is imported.

verl's own defaults are kept where they serve; each override below is a hyperparameter of the run, a resource, a path,
or a need of the device. The spec is complete and valid: nothing is checked or chosen here.
"""

import importlib.util
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from ratchet_kit.model_config import base_config, stops_of
from ratchet_rewards import Combination
from trainer_service.domain.spec.hyperparameters import ROWS, Hyperparameters, LearningRateSchedule
from trainer_service.domain.spec.plugins import PluginKind, named
from trainer_service.domain.spec.spec import PromptForm
from trainer_service.job.run.checkpoints import Checkpoints
from trainer_service.job.run.config import JobConfig
from trainer_service.job.run.record import Record
from trainer_service.job.samples.endings import vocabulary
from trainer_service.job.samples.prompting import setting_of
from trainer_service.verl.algorithms import REPLACES_GROUPS, VERL_ALGORITHMS, Override

DATASETS = "trainer_service.verl.driver.datasets"
GDPO = "ratchet_gdpo"
"""The name of our estimator of advantages in verl's register (driver/own_advantages.py)."""
PLUGIN_NAME = "ratchet_plugin"
"""The name of a run's own loss, and of its own estimator of advantages, in verl's registers."""
ROLLOUT = "ratchet"
"""The name of our rollout adapter in verl's config (actor_rollout_ref.rollout.name)."""
# What a checkpoint holds. `hf_model` writes the exact training weights; verl's model_merger would round them to bf16.
CHECKPOINT_CONTENTS = "[model,optimizer,extra,hf_model]"


def has_flash_attention() -> bool:
    """Whether flash-attn is installed. No lock has it: the package index has its source only, which takes hours."""
    return importlib.util.find_spec("flash_attn") is not None


def rl_overrides(job: JobConfig, resume_from: Path | None) -> list[Override]:
    """Overrides of verl's `ppo_trainer`, for every algorithm that has a row in `algorithms`.

    `resume_from`: the folder of a complete checkpoint.
    """
    spec, hyper, algorithm = job.spec, job.spec.hyperparameters, VERL_ALGORITHMS[job.spec.algorithm]
    actor = "actor_rollout_ref.actor"
    return [
        f"algorithm.adv_estimator={_estimator(job)}",
        *_correction(job),
        *_once(job),
        *_data(job, "PromptDataset"),
        *_hyperparameters(job),
        f"data.filter_overlong_prompts={not spec.refuse_long_prompts}",
        f"data.seed={spec.seed}",
        "data.dataloader_num_workers=0",
        # verl makes a loader of the validation set even when there is none; the default size is then 0, and refused.
        *([] if spec.validation_problems else ["data.val_batch_size=1"]),
        *_model("actor_rollout_ref.model", job),
        *_head("actor_rollout_ref.model"),
        *_lora("actor_rollout_ref.model", f"{actor}.checkpoint", hyper),
        *_engine(f"{actor}.fsdp_config", job),
        f"{actor}.strategy=fsdp2",
        f"{actor}.use_torch_compile={job.is_cuda}",
        f"{actor}.use_dynamic_bsz=True",
        f"{actor}.ppo_max_token_len_per_gpu={job.passes.tokens}",
        f"{actor}.data_loader_seed={spec.seed}",
        # Averaging over tokens leaves a masked sample no weight at all: neither in the sum nor in the count. Some
        # algorithms average otherwise.
        f"{actor}.loss_agg_mode=token-mean",
        f"{actor}.checkpoint.save_contents={CHECKPOINT_CONTENTS}",
        f"{actor}.checkpoint.load_contents=[model,optimizer,extra]",
        *_optimizer(f"{actor}.optim", job),
        *_reference(job),
        *(_critic(job) if job.algorithm.has_critic else []),
        f"actor_rollout_ref.rollout.name={ROLLOUT}",
        f"actor_rollout_ref.rollout.dtype={job.dtype}",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        # The engine has its own process and memory: nothing of it is to be freed around a step.
        "actor_rollout_ref.rollout.free_cache_engine=False",
        # Verdicts come with the completions, so verl's reward workers have nothing to do.
        "reward.num_workers=0",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        # verl counts epochs in RL, too, and must not end by them: more than any run has.
        *_trainer(job, epochs=10**6),
        f"trainer.val_before_train={base_is_validated(job, resume_from)}",
        *_resume(resume_from),
        *_profile(job),
        *algorithm.overrides,
        *(REPLACES_GROUPS if job.algorithm.replaces_groups else ()),
        *_loss(job),
        *spec.verl_overrides,
    ]


def _hyperparameters(job: JobConfig) -> Iterator[Override]:
    """Hyperparameters that are a setting of verl's as they are. The others have functions below, or act elsewhere."""
    algorithm = job.algorithm
    for name, row in ROWS.items():
        value = getattr(job.spec.hyperparameters, name)
        for setting in row.rl if algorithm.is_online else row.examples:
            if value is not None and (algorithm.has_critic or not setting.startswith("critic.")):
                yield f"{setting}={value}"


def _profile(job: JobConfig) -> Sequence[Override]:
    """A trace of each of these steps and each rank: what it computes, from old log-probs to the update."""
    if not job.spec.profile_steps:
        return ()
    profiler = "actor_rollout_ref.actor.profiler"
    return (
        "global_profiler.tool=torch",
        f"global_profiler.steps={json.dumps(sorted(job.spec.profile_steps))}",
        f"global_profiler.save_path={quote(str(Record(job.work_dir.absolute()).profile))}",
        f"{profiler}.enable=True",
        f"{profiler}.all_ranks=True",
        f"{profiler}.tool_config.torch.contents=[{'cuda' if job.is_cuda else 'cpu'}]",
    )


def _estimator(job: JobConfig) -> str:
    """GDPO has normalised each component in its group: what is left of GRPO's normalisation is that over the batch."""
    if named(job.spec.plugins, PluginKind.ADVANTAGE):
        return PLUGIN_NAME
    estimator = VERL_ALGORITHMS[job.spec.algorithm].estimator
    return GDPO if estimator == "grpo" and job.spec.reward.combination == Combination.GDPO else estimator


def _loss(job: JobConfig) -> Sequence[Override]:
    if named(job.spec.plugins, PluginKind.LOSS) is None:
        return ()
    return (f"actor_rollout_ref.actor.policy_loss.loss_mode={PLUGIN_NAME}",)


def sft_overrides(job: JobConfig, resume_from: Path | None) -> list[Override]:
    """Overrides of verl's `sft_trainer_engine`."""
    return [*_data(job, "ChosenDataset" if job.spec.pairs else "ExampleDataset"), *_examples(job, resume_from)]


def dpo_overrides(job: JobConfig, resume_from: Path | None) -> list[Override]:
    """Overrides of the same, for pairs. Validation is by completions: verl has none to make."""
    return [
        *_data(job, "PairDataset"),
        "data.val_files=null",
        *_examples(job, resume_from),
        # It would part the rows of a pair (trainer/sft_trainer_ray.py, fit).
        "trainer.balance_batch=False",
    ]


def reward_model_overrides(job: JobConfig, resume_from: Path | None) -> list[Override]:
    """The same for a model that scores, which has no logits."""
    return [
        *_data(job, "ConversationPairDataset"),
        "data.val_files=null",
        *_examples(job, resume_from),
        "model.use_fused_kernels=False",
        "trainer.balance_batch=False",
    ]


def _examples(job: JobConfig, resume_from: Path | None) -> list[Override]:
    spec, hyper = job.spec, job.spec.hyperparameters
    return [
        *_hyperparameters(job),
        "data.use_dynamic_bsz=True",
        f"data.max_token_len_per_gpu={job.passes.tokens}",
        f"data.max_length={hyper.max_tokens}",
        f"+data.filter_overlong_prompts={not spec.refuse_long_prompts}",
        "data.num_workers=0",
        *_model("model", job),
        *_head("model"),
        *_lora("model", "checkpoint", hyper),
        "engine.strategy=fsdp2",
        *_engine("engine", job),
        *_optimizer("optim", job),
        f"checkpoint.save_contents={CHECKPOINT_CONTENTS}",
        "checkpoint.load_contents=[model,optimizer,extra]",
        f"trainer.seed={spec.seed}",
        # verl ends at the last step, which comes at the latest in so many: each has a batch.
        *_trainer(job, epochs=spec.steps),
        *_resume(resume_from),
        *spec.verl_overrides,
    ]


def _data(job: JobConfig, dataset: str) -> Sequence[Override]:
    problems, validation, shown = job.spec.learned, job.spec.chosen_by, job.spec.examples
    return (
        f"data.train_files={quote(problems.name)}",
        f"data.val_files={quote(validation.name) if validation else 'null'}",
        f"data.train_max_samples={problems.limit or -1}",
        f"data.val_max_samples={(validation and validation.limit) or -1}",
        f"data.custom_cls.path=pkg://{DATASETS}",
        f"data.custom_cls.name={dataset}",
        f"+data.prompt_form={job.spec.prompt_form or PromptForm.CHAT}",
        f"+data.system={quote(setting_of(job.spec.system))}",
        f"+data.all_answers={job.spec.all_answers}",
        f"+data.examples={quote(shown.name) if shown else 'null'}",
        f"+data.shots={shown.limit if shown else 0}",
        f"+data.examples_digest={quote(shown.digest) if shown else 'null'}",
        f"+data.stops={list(stops_of(Path(job.base_path)))}",
        f"+data.vocabulary={vocabulary(base_config(Path(job.base_path)))}",
    )


_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")


def _model(prefix: str, job: JobConfig) -> Sequence[Override]:
    """With the base's own ids of tokens: verl would write the tokenizer's into the model (workers/config/model.py:207),
    of which it may have none, or one beyond the embedding."""
    config = base_config(Path(job.base_path))
    return (
        f"{prefix}.path={quote(job.base_path)}",
        *(f"+{prefix}.override_config.{name}={json.dumps(config.get(name))}" for name in _TOKENS),
        *([] if job.is_cuda and has_flash_attention() else _padded_attention(prefix)),
        f"{prefix}.enable_gradient_checkpointing={job.passes.recomputed}",
    )


def _padded_attention(prefix: str) -> Sequence[Override]:
    """PyTorch's own attention. Sequences are padded then, since a pass of one row would have its attention computed
    between all of its tokens, which costs a model of 135 million parameters a third more."""
    return f"+{prefix}.override_config.attn_implementation=sdpa", f"{prefix}.use_remove_padding=False"


def _head(prefix: str) -> Sequence[Override]:
    """The logits of a few hundred tokens at a time, and again in the backward pass: whole ones take more memory than
    all else where the vocabulary is large."""
    return f"{prefix}.use_fused_kernels=True", f"{prefix}.fused_kernel_options.impl_backend=torch"


def _lora(prefix: str, checkpoint: str, hyper: Hyperparameters) -> Sequence[Override]:
    """Checkpoints are without the base, which does not change; what is sent and exported has the adapters merged into
    it (rank/lora.py)."""
    if not hyper.lora_rank:
        return ()
    return (
        f"{prefix}.lora_rank={hyper.lora_rank}",
        f"{prefix}.lora_alpha={hyper.lora_alpha}",
        f"{prefix}.lora.merge=True",
        f"+{checkpoint}.save_lora_only=True",
    )


def _correction(job: JobConfig) -> Sequence[Override]:
    """Weights each token by how much likelier the trainer finds it than the engine that sampled it, 2 at most.
    Truncated importance sampling (Yao et al. 2025, "Your Efficient RL Framework Secretly Brings You Off-Policy RL
    Training").

    In float32 both compute the same. In bfloat16 they do not: the trainer rounds its float32 weights in other places.
    Where samples may be stale the difference is that of two policies, in any case.
    """
    if job.dtype == "float32" and not job.spec.hyperparameters.max_staleness:
        return ()
    return "algorithm.rollout_correction.rollout_is=token", "algorithm.rollout_correction.rollout_is_threshold=2.0"


_LEARNED_AGAIN = ("actor_rollout_ref.actor.ppo_epochs", "algorithm.rollout_correction.rollout_is_batch_normalize")


def _once(job: JobConfig) -> Sequence[Override]:
    """Where a batch is learned from once, old log-probs are those of the update itself: no pass is made for them
    (rank/losses.py). The other settings of a run are kept, but what needs the whole batch before the update, or a
    second update, or a reward that they are part of, has the pass."""
    hyper, overrides = job.spec.hyperparameters, job.spec.verl_overrides
    again = any(setting.startswith(_LEARNED_AGAIN) for setting in overrides)
    if again or hyper.mini_batch_size != hyper.batch_size or hyper.kl_in_reward:
        return ()
    return (
        "algorithm.rollout_correction.bypass_mode=True",
        "+actor_rollout_ref.actor.policy_loss.rollout_correction=${algorithm.rollout_correction}",
        "actor_rollout_ref.actor.calculate_entropy=True",
    )


def _engine(prefix: str, job: JobConfig) -> Sequence[Override]:
    """Mixed precision by the job's dtype (verl's default is bf16 autocast); parameters are kept in fp32 by verl."""
    precision = "fp32" if job.dtype == "float32" else "bf16"
    return (
        f"{prefix}.strategy=fsdp2",
        f"{prefix}.use_torch_compile={job.is_cuda}",
        f"{prefix}.seed={job.spec.seed}",
        f"+{prefix}.mixed_precision.param_dtype={precision}",
        f"+{prefix}.mixed_precision.reduce_dtype=fp32",
        # In host memory between its passes.
        *(
            [f"{prefix}.{part}_offload=True" for part in ("param", "optimizer")]
            if job.spec.resources.shares_gpu
            else []
        ),
    )


def _optimizer(prefix: str, job: JobConfig) -> Sequence[Override]:
    schedule = job.spec.hyperparameters.learning_rate_schedule
    return (
        # verl has no linear schedule: rank/patches/learning_rates.py.
        f"{prefix}.lr_scheduler_type={'cosine' if schedule == LearningRateSchedule.COSINE else 'constant'}",
        # On GPUs torch has a fast way without it; on CPUs a parameter at a time takes five times as long.
        *(() if job.is_cuda else (f"+{prefix}.override_optimizer_config.fused=True",)),
    )


def base_is_validated(job: JobConfig, resume_from: Path | None) -> bool:
    """What a policy has come to is seen against its base; where only the end is validated, nothing could be stopped."""
    spec = job.spec
    is_needed = spec.validation_problems is not None and (spec.validate_every or spec.steps) < spec.steps
    return is_needed and resume_from is None and spec.thresholds.collapse_confidence > 0


def _reference(job: JobConfig) -> Sequence[Override]:
    """The base policy that the KL penalty is against; none is kept without a penalty."""
    hyper = job.spec.hyperparameters
    if hyper.kl_coefficient == 0:
        return ("actor_rollout_ref.actor.use_kl_loss=False",)
    in_reward = bool(hyper.kl_in_reward)
    place = "algorithm.kl_ctrl.kl_coef" if in_reward else "actor_rollout_ref.actor.kl_loss_coef"
    return (
        f"algorithm.use_kl_in_reward={in_reward}",
        f"actor_rollout_ref.actor.use_kl_loss={not in_reward}",
        f"{place}={hyper.kl_coefficient}",
        "actor_rollout_ref.ref.strategy=fsdp2",
        *_engine("actor_rollout_ref.ref.fsdp_config", job),
    )


def _critic(job: JobConfig) -> Sequence[Override]:
    return (
        *_model("critic.model", job),
        "critic.strategy=fsdp2",
        "critic.use_dynamic_bsz=True",
        f"critic.ppo_max_token_len_per_gpu={job.passes.tokens}",
        # What verl 0.9.1 takes for both of its passes (trainer/ppo/v1/trainer_base.py:267).
        f"+critic.ppo_infer_max_token_len_per_gpu={job.passes.tokens}",
        *_optimizer("critic.optim", job),
        *_engine("critic.fsdp", job),
    )


def _trainer(job: JobConfig, epochs: int) -> Sequence[Override]:
    spec, resources = job.spec, job.spec.resources
    return (
        f"trainer.device={resources.device}",
        f"trainer.nnodes={resources.nodes}",
        f"trainer.n_gpus_per_node={resources.accelerators_per_node}",
        f"trainer.total_training_steps={spec.steps}",
        f"trainer.total_epochs={epochs}",
        "trainer.project_name=ratchet",
        f"trainer.experiment_name={quote(job.run_id)}",
        f"trainer.logger={json.dumps(spec.loggers)}",
        f"trainer.default_local_dir={quote(str(Checkpoints(job.work_dir, job.attempt).root))}",
        # verl asks at each step whether it is saved, and the trainer decides (`Schedule`).
        "trainer.save_freq=1",
        # verl validates the last step, too, when this is above 0.
        f"trainer.test_freq={spec.validate_every or spec.steps}",
    )


def _resume(resume_from: Path | None) -> Sequence[Override]:
    if resume_from is None:
        return ("trainer.resume_mode=disable",)
    return ("trainer.resume_mode=resume_path", f"trainer.resume_from_path={quote(str(resume_from))}")


def quote(text: str) -> str:
    """A string as Hydra's override grammar takes it whatever is in it (hydra.cc, "Quoted values")."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
