"""verl reports with a step the rate that the next one will have (workers/engine/fsdp/transformer_impl.py:836)."""

from typing import Any

from verl.workers.engine.fsdp import transformer_impl

HELD = {"verl.workers.engine.fsdp.transformer_impl:FSDPEngine.lr_scheduler_step": "5df166dad20babd5"}


def apply() -> None:
    transformer_impl.FSDPEngine.lr_scheduler_step = lr_scheduler_step


def lr_scheduler_step(self: Any) -> float:
    rate: float = self.lr_scheduler.get_last_lr()[0]
    self.lr_scheduler.step()
    return rate
