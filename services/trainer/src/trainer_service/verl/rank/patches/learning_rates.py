"""verl's FSDP engine begins its warm-up at 0, so that a run's first step learns nothing, and has no linear schedule
(workers/engine/fsdp/transformer_impl.py:503); its config refuses the name. Step n of a warm-up has n / warm-up of the
rate here. What a linear schedule's end is (the step after the last) is as in verl's cosine."""

from collections.abc import Callable
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR
from verl.workers.engine.fsdp import transformer_impl

from trainer_service.domain.spec.hyperparameters import LearningRateSchedule
from trainer_service.job.run.config import JobConfig

HELD = {"verl.workers.engine.fsdp.transformer_impl:FSDPEngine._build_lr_scheduler": "3a9dd2e4f0894732"}


def apply() -> None:
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
