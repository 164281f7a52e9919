"""Every change to verl 0.9.1 and torch that has no public hook. Each names the line that needs it, and goes with it."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import ray
import torch.distributed
import verl.utils.experimental.torch_functional
import verl.utils.fsdp_utils
import verl.utils.model
from torch.optim.lr_scheduler import LambdaLR
from transfer_queue import interface
from transfer_queue.controller import TransferQueueController
from verl.utils.checkpoint import fsdp_checkpoint_manager
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.rollout.base import _ROLLOUT_REGISTRY

from trainer_service.domain.spec import LearningRateSchedule
from trainer_service.job.config import JobConfig
from trainer_service.verl.config import ROLLOUT
from trainer_service.verl.rank import lora, padded_passes, shared_prefixes, without_signal
from trainer_service.verl.rank.head import FusedHead
from trainer_service.verl.rank.reward_head import with_reward_head


def apply() -> None:
    """Idempotent for each process: verl imports its external modules once."""
    register_rollout()
    own_transfer_queue()
    value_head_as_configured()
    padded_passes.apply()
    without_signal.apply()
    head_gathered_with_its_model()
    head_of_used_tokens()
    lora_merged()
    lora_seeded()
    learning_rates()
    learning_rate_of_its_step()
    if os.environ.get("VERL_PLATFORM") == "cpu":
        single_gloo_backend()
        unpinned_offload()
        shared_prefixes.apply()


def register_rollout() -> None:
    """The registry of rollout adapters is a private dict without a register function (workers/rollout/base.py:83)."""
    _ROLLOUT_REGISTRY[(ROLLOUT, "async")] = "trainer_service.verl.rank.weights.WeightSender"


def own_transfer_queue() -> None:
    """TransferQueue 0.1.11 finds its controller by a name in a namespace that is the same for a whole cluster
    (interface.py:119, 201): a second run would write into the queue of the first. Each attempt has its own here."""

    def namespace() -> str:
        job = JobConfig.from_env()
        return f"transfer_queue-{job.run_id}-{job.attempt}"

    class Ray:
        def get_actor(self, name: str, **unused: Any) -> Any:
            return ray.get_actor(name, namespace=namespace())

        def __getattr__(self, name: str) -> Any:
            return getattr(ray, name)

    class Controller:
        def options(self, **options: Any) -> Any:
            return TransferQueueController.options(**options | {"namespace": namespace()})

    interface.ray, interface.TransferQueueController = Ray(), Controller()


def single_gloo_backend() -> None:
    """verl asks for "cpu:gloo,<device>:<backend>" (utils/distributed.py, engine_workers.py); on CPU that names the
    device twice, which torch refuses."""
    original = torch.distributed.init_process_group

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        return original("cpu:gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)

    torch.distributed.init_process_group = init_process_group


def value_head_as_configured() -> None:
    """The critic hard-codes attn_implementation="flash_attention_2" (utils/model.py:645-676), not the config's, and
    nothing seeds its head. A run that makes a reward model has the same kind of model, with a head of its own."""

    def load_valuehead_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        from transformers import AutoModelForTokenClassification

        job = JobConfig.from_env()
        torch.manual_seed(job.spec.seed)
        model = AutoModelForTokenClassification.from_pretrained(
            local_path,
            dtype=torch_dtype,
            config=model_config,
            trust_remote_code=trust_remote_code,
        )
        return with_reward_head(model, job.spec.seed) if job.algorithm.makes_reward_model else model

    verl.utils.model.load_valuehead_model = load_valuehead_model


def head_gathered_with_its_model() -> None:
    """verl shards a head that is not tied by itself (utils/fsdp_utils.py:549), so its weights are gathered for its own
    forward only. The slices of logits are made of them outside of it (models/transformers/dense_common.py:123)."""
    select = verl.utils.fsdp_utils._select_fsdp2_wrap_targets

    def without_head(model: Any, layers: Any) -> list[Any]:
        head = model.get_output_embeddings()
        return [module for module in select(model, layers) if module is not head]

    verl.utils.fsdp_utils._select_fsdp2_wrap_targets = without_head


def head_of_used_tokens() -> None:
    """verl's models take this class when they are called (models/transformers/dense_common.py:89)."""
    verl.utils.experimental.torch_functional.FusedLinearForPPO = FusedHead


def lora_merged() -> None:
    """verl sends merged weights in bfloat16 whatever they are, made by way of a copy of the base, and exports base and
    adapters apart, by PEFT's names (workers/engine/fsdp/transformer_impl.py:1063,
    utils/checkpoint/fsdp_checkpoint_manager.py:425)."""
    full_state = fsdp_checkpoint_manager.get_fsdp_full_state_dict

    def get_fsdp_full_state_dict(
        model: torch.nn.Module, offload_to_cpu: bool = True, rank0_only: bool = True
    ) -> dict[str, torch.Tensor]:
        if not lora.is_in(model):
            return full_state(model, offload_to_cpu=offload_to_cpu, rank0_only=rank0_only)
        # Every rank takes part in gathering each of them.
        kept = not rank0_only or torch.distributed.get_rank() == 0
        return {name: value.cpu() for name, value in lora.merged(model) if kept}

    def _merged_lora_per_tensor_param(self: Any) -> Iterator[tuple[str, torch.Tensor]]:
        return lora.merged(self.module)

    fsdp_checkpoint_manager.get_fsdp_full_state_dict = get_fsdp_full_state_dict
    transformer_impl.FSDPEngine._merged_lora_per_tensor_param = _merged_lora_per_tensor_param
    transformer_impl.FSDPEngine.disable_adapter = lambda self: lora.without(self.module)


def lora_seeded() -> None:
    """verl seeds nothing before it draws what LoRA starts from (workers/engine/fsdp/transformer_impl.py:339)."""
    build = transformer_impl.FSDPEngine._build_lora_module

    def _build_lora_module(self: Any, module: torch.nn.Module) -> torch.nn.Module:
        torch.manual_seed(JobConfig.from_env().spec.seed)
        made: torch.nn.Module = build(self, module)
        return made

    transformer_impl.FSDPEngine._build_lora_module = _build_lora_module


def learning_rates() -> None:
    """verl's FSDP engine begins its warm-up at 0, so that a run's first step learns nothing, and has no linear schedule
    (workers/engine/fsdp/transformer_impl.py:503); its config refuses the name. Step n of a warm-up has n / warm-up
    of the rate here. What a linear schedule's end is (the step after the last) is as in verl's cosine."""
    build = transformer_impl.FSDPEngine._build_lr_scheduler

    def _build_lr_scheduler(self: Any, optimizer: torch.optim.Optimizer) -> LambdaLR:
        config = self.optimizer_config
        warmup, steps, end = config.lr_warmup_steps, config.total_training_steps, config.min_lr_ratio
        after: Callable[[int], float] = build(self, optimizer).lr_lambdas[0]

        def linear(step: int) -> float:
            return float(max(end, 1 - (1 - end) * (step - warmup) / max(1, steps - warmup)))

        if JobConfig.from_env().spec.hyperparameters.learning_rate_schedule == LearningRateSchedule.LINEAR:
            after = linear
        return LambdaLR(optimizer, lambda step: (step + 1) / warmup if step < warmup else after(step))

    transformer_impl.FSDPEngine._build_lr_scheduler = _build_lr_scheduler


def learning_rate_of_its_step() -> None:
    """verl reports with a step the rate that the next one will have (workers/engine/fsdp/transformer_impl.py:836)."""

    def lr_scheduler_step(self: Any) -> float:
        rate: float = self.lr_scheduler.get_last_lr()[0]
        self.lr_scheduler.step()
        return rate

    transformer_impl.FSDPEngine.lr_scheduler_step = lr_scheduler_step


def unpinned_offload() -> None:
    """The reference policy's CPUOffloadPolicy pins memory, which needs an accelerator
    (workers/engine/fsdp/transformer_impl.py:455)."""
    policy = transformer_impl.CPUOffloadPolicy
    transformer_impl.CPUOffloadPolicy = lambda pin_memory=True: policy(pin_memory=False)
