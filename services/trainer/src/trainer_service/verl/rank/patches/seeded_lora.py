"""verl seeds nothing before it draws what LoRA starts from (workers/engine/fsdp/transformer_impl.py:339)."""

from typing import Any

import torch
from verl.workers.engine.fsdp import transformer_impl

from trainer_service.job.run.config import JobConfig

HELD = {"verl.workers.engine.fsdp.transformer_impl:FSDPEngine._build_lora_module": "31ad1f73ed3cb764"}


def apply() -> None:
    build = transformer_impl.FSDPEngine._build_lora_module

    def _build_lora_module(self: Any, module: torch.nn.Module) -> torch.nn.Module:
        torch.manual_seed(JobConfig.from_env().spec.seed)
        made: torch.nn.Module = build(self, module)
        return made

    transformer_impl.FSDPEngine._build_lora_module = _build_lora_module
