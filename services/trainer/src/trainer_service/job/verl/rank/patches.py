"""Every change to verl 0.9.1 and torch that has no public hook. Each names the line that needs it, and goes with it."""

import os
from typing import Any

import torch.distributed
import verl.utils.fsdp_utils
import verl.utils.model
from verl.workers.rollout.base import _ROLLOUT_REGISTRY

from trainer_service.job.verl.config import ROLLOUT


def apply() -> None:
    """Idempotent for each process: verl imports its external modules once."""
    register_rollout()
    value_head_as_configured()
    if os.environ.get("VERL_PLATFORM") == "cpu":
        single_gloo_backend()
        unpinned_offload()


def register_rollout() -> None:
    """The registry of rollout adapters is a private dict without a register function (workers/rollout/base.py:83)."""
    _ROLLOUT_REGISTRY[(ROLLOUT, "async")] = "trainer_service.job.verl.rank.weights.WeightSender"


def single_gloo_backend() -> None:
    """verl asks for "cpu:gloo,<device>:<backend>" (utils/distributed.py, engine_workers.py); on CPU that names the
    device twice, which torch refuses."""
    original = torch.distributed.init_process_group

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        return original("cpu:gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)

    torch.distributed.init_process_group = init_process_group


def value_head_as_configured() -> None:
    """The critic hard-codes attn_implementation="flash_attention_2" (utils/model.py:645-676), not the config's."""

    def load_valuehead_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        from transformers import AutoModelForTokenClassification

        return AutoModelForTokenClassification.from_pretrained(
            local_path,
            dtype=torch_dtype,
            config=model_config,
            trust_remote_code=trust_remote_code,
        )

    verl.utils.model.load_valuehead_model = load_valuehead_model


def unpinned_offload() -> None:
    """The reference policy's CPUOffloadPolicy pins memory, which needs an accelerator
    (workers/engine/fsdp/transformer_impl.py:455)."""
    policy = verl.utils.fsdp_utils.CPUOffloadPolicy
    verl.utils.fsdp_utils.CPUOffloadPolicy = lambda pin_memory=True: policy(pin_memory=False)
