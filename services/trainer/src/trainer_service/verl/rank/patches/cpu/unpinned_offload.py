"""The reference policy's CPUOffloadPolicy pins memory, which needs an accelerator
(workers/engine/fsdp/transformer_impl.py:455)."""

from verl.workers.engine.fsdp import transformer_impl

HELD = {"verl.workers.engine.fsdp.transformer_impl:FSDPEngine._build_fsdp_module": "35b7b539858443e4"}


def apply() -> None:
    policy = transformer_impl.CPUOffloadPolicy
    transformer_impl.CPUOffloadPolicy = lambda pin_memory=True: policy(pin_memory=False)
