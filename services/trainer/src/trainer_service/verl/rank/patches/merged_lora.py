"""verl sends merged weights in bfloat16 whatever they are, made by way of a copy of the base, and exports base and
adapters apart, by PEFT's names (workers/engine/fsdp/transformer_impl.py:1063,
utils/checkpoint/fsdp_checkpoint_manager.py:425)."""

from collections.abc import Iterator
from typing import Any

import torch.distributed
from verl.utils.checkpoint import fsdp_checkpoint_manager
from verl.workers.engine.fsdp import transformer_impl

from trainer_service.verl.rank import lora

HELD = {
    "verl.workers.engine.fsdp.transformer_impl:FSDPEngine._merged_lora_per_tensor_param": "a477342f996fae71",
    "verl.workers.engine.fsdp.transformer_impl:FSDPEngine.disable_adapter": "8917aa3cf3d2a76c",
    "verl.workers.engine.fsdp.transformer_impl:FSDPEngine.get_per_tensor_param": "30802c73cfcc5ba2",
    "verl.utils.checkpoint.fsdp_checkpoint_manager:FSDPCheckpointManager.save_checkpoint": "408622f180370088",
}


def apply() -> None:
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
