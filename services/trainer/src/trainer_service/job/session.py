"""What one attempt works with: its config, its clients, its checkpoints. Built by `__main__`, used by the trainers."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from ratchet_environments import Environment
from ratchet_kit.retry import patiently
from trainer_service.job.background import Background
from trainer_service.job.checkpoints import Checkpoints, Export
from trainer_service.job.config import JobConfig
from trainer_service.job.policy import RunPolicy
from trainer_service.job.report import Reporter
from trainer_service.job.rewarding import Rewarding
from trainer_service.job.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Session:
    job: JobConfig
    schedule: Schedule
    background: Background
    reporter: Reporter
    policy: RunPolicy
    environment: Environment
    rewarding: Rewarding
    """Of an algorithm that learns from examples, one of nothing."""
    checkpoints: Checkpoints

    @property
    def resume_from(self) -> Path | None:
        """The newest complete checkpoint; None when the run starts at its base."""
        latest = self.checkpoints.latest()
        return None if latest is None else self.checkpoints.folder(latest)

    def require_space(self) -> None:
        """Waits, for as long as the job's patience, until the disk has room for the next checkpoint.

        Raises ResourceExhausted then, which says how much is missing: what is half written can't be resumed from.
        """

        async def look() -> None:
            await asyncio.to_thread(self.checkpoints.require_space)

        self.background.wait(patiently(look, self.job.patience, "space for a checkpoint"))

    def keep(self, step: int, model: Path, policy_id: str, score: float | None) -> None:
        """Ends a checkpoint: exports and reports the model of a validated step, then lets the checkpoint count.

        `model`: the Hugging Face folder inside the checkpoint.
        """
        if self.schedule.is_validated(step):
            self.reporter.checkpoint(Export(step, self._export(step, model), policy_id, score))
        self.checkpoints.complete(step)

    def _export(self, step: int, model: Path) -> str:
        async def export() -> str:
            return await asyncio.to_thread(self.checkpoints.export, step, model)

        return self.background.wait(patiently(export, self.job.patience, "export"))
