"""What each replica's metrics say of runs, whoever of them trains these."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from prometheus_client import REGISTRY

from ratchet_kit.worker import Timing
from ratchet_testing.waiting import until
from trainer_service.adapters.meter import PrometheusMeter
from trainer_service.domain.run.run import Run, Step
from trainer_service.main import provision
from trainer_service.settings import Settings

from ..conftest import Trainer

OF_A_RUN = ("ratchet_trainer_run_step", "ratchet_trainer_run_attempt", "ratchet_trainer_run_platform_faults")


def series(run: Run) -> list[float | None]:
    return [REGISTRY.get_sample_value(name, {"run_id": run.id}) for name in OF_A_RUN]


async def test_a_run_that_another_replica_ends_leaves_the_metrics(trainer: Trainer, run: Run) -> None:
    """This replica only reads the store: it has neither the run's job nor its reports."""
    ports = replace(trainer.ports, meter=PrometheusMeter())
    timing = Timing(reconcile=timedelta(milliseconds=5))
    stop = asyncio.Event()
    async with provision(Settings(), ports=ports, timing=timing) as replica, asyncio.TaskGroup() as tasks:
        _, _, count, *_ = replica.background
        tasks.create_task(count(stop))
        await until(lambda: series(run) == [0, 0, 0])
        await trainer.runs.cancel(run.id)
        await until(lambda: series(run) == [None, None, None])
        stop.set()


async def test_a_run_has_its_series_while_it_goes_on(run: Run) -> None:
    meter = PrometheusMeter()
    meter.unfinished([run], {})
    step = Step(2, {"reward_mean": 0.5, "vetoed": 1.0}, "sha256:0", run.create_time, 1)
    meter.unfinished([replace(run, step=2, attempt=1)], {run.id: step})
    assert series(run) == [2, 1, 0]
    assert reward(run) == 0.5
    meter.unfinished([], {})
    assert series(run) == [None, None, None]
    assert reward(run) is None


def reward(run: Run) -> float | None:
    return REGISTRY.get_sample_value("ratchet_trainer_step_reward_mean", {"run_id": run.id})
