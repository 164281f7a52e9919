"""A driver over memory, and a test that plays its jobs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ratchet_testing.waiting import until
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Run, Step


@asynccontextmanager
async def driving(trainer: Any, id: str) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(trainer.driver.drive(id))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def submitted(trainer: Any, run: Run, attempt: int) -> None:
    await until(lambda: (run.id, attempt) in trainer.jobs.submitted)


async def do_steps(trainer: Any, run: Run, attempt: int, *numbers: int) -> None:
    now = trainer.clock.now()
    for number in numbers:
        await trainer.reports.step(run.id, Step(number, {}, f"sha256:{number}", now, attempt))
        checkpoint = Checkpoint(number, f"/exports/{number}", f"sha256:{number}", now, 0.9 if number == 2 else 0.1)
        await trainer.reports.checkpoint(run.id, attempt, checkpoint)


async def train(trainer: Any, run: Run) -> None:
    """Plays the job of attempt 1 from its start to its end."""
    await submitted(trainer, run, 1)
    await trainer.reports.started(run.id, 1)
    await do_steps(trainer, run, 1, 1, 2, 3)
    await trainer.reports.finished(run.id, 1, None)
    trainer.jobs.end(run.id, 1)
