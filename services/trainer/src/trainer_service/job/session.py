"""What one attempt works with: its config, its clients, its checkpoints. Built by `__main__`, used by the trainers."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from ratchet_environments import Environment
from ratchet_kit.errors import RatchetError
from ratchet_kit.logs import get_logger
from ratchet_kit.retry import patiently
from ratchet_kit.statistics import Estimate
from ratchet_problems.dataset_fetching import Datasets
from ratchet_problems.sets import dataset_of
from trainer_service.domain.spec.spec import ProblemSetRef
from trainer_service.job.policy.policy import RunPolicy
from trainer_service.job.reward.rewarding import Rewarding
from trainer_service.job.reward.second_hand import SecondHand
from trainer_service.job.run import exports
from trainer_service.job.run.background import Background
from trainer_service.job.run.checkpoints import Checkpoints, Export
from trainer_service.job.run.config import JobConfig
from trainer_service.job.run.record import Record
from trainer_service.job.run.report import NodeEnds, Preempted, Reporter
from trainer_service.job.run.schedule import Schedule
from trainer_service.job.samples.folders import FolderPlayer
from trainer_service.job.usage import UsageMeter

log = get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


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
    datasets: Datasets
    usage: UsageMeter
    second_hand: SecondHand | None = None
    """None: all tests of a problem are rewarded."""
    folders: FolderPlayer | None = None
    """None: its problems are no task folders."""
    ending_node: Callable[[], str] = str
    """The node of this job that is about to end; empty while none is."""

    @property
    def record(self) -> Record:
        return Record(self.job.work_dir)

    @property
    def resume_from(self) -> Path | None:
        """The newest complete checkpoint; None when the run starts at its base."""
        latest = self.checkpoints.latest()
        return latest.folder if latest else None

    def drawn(self, step: int) -> Sequence[ProblemSetRef]:
        """The newer versions of the run's problems that a step draws from, oldest first, each on this machine."""
        found = self.reporter.drawn(step)
        for ref in found:
            dataset = dataset_of(ref.name)
            assert dataset is not None
            self.background.wait(patiently(partial(self.datasets.fetch, dataset), self.job.patience, ref.name))
        return found

    def require_space(self) -> None:
        """Waits, for as long as the job's patience, until the disk has room for the next checkpoint.

        Raises ResourceExhausted then, which says how much is missing: what is half written can't be resumed from.
        """
        self._patiently("space for a checkpoint", self.checkpoints.require_space)

    def spend(self, step: int, tokens: int) -> bool:
        """True if this step, which trains on these tokens, is the last one: see `Schedule.spend`."""
        if self.job.spec.budget is not None:
            self.schedule.cost = self.job.spent + (self.background.wait(self.usage.read()).cost or 0.0)
        return self.schedule.spend(step, tokens)

    def is_saved(self, step: int) -> bool:
        """Asked once for each step, when it could be saved: a job that is to make room saves its last one."""
        if self.reporter.preempted:
            self.schedule.leave(step, Preempted(f"step {step} is saved, and a run of higher priority gets the room"))
        elif node := self.ending_node():
            self.schedule.leave(step, NodeEnds(f"node {node} is about to end: step {step} is saved"))
        return self.schedule.is_saved(step)

    def end_step(self, step: int) -> None:
        """The step is reported, and kept where it was saved. Raises Preempted or NodeEnds where the job is to end with
        it."""
        self.usage.note()  # after the last step, ranks end without another word
        if step == self.schedule.leaves_at and self.schedule.leaves_for:
            raise self.schedule.leaves_for

    def keep(
        self, step: int, model: Path, policy_id: str, score: float | None, interval: Estimate | None = None
    ) -> None:
        """Ends a checkpoint: exports and reports the model of a validated step, then lets the checkpoint count.

        `model`: the Hugging Face folder inside the checkpoint.
        """
        size = self.checkpoints.size(step)
        if self.schedule.is_validated(step):
            uri = self._patiently("export", self._export, step, model)
            self.reporter.checkpoint(Export(step, uri, policy_id, score, interval))
            self._patiently("remove exports", self.checkpoints.remove_repeated_exports, step)
        self._patiently("keep the checkpoint", self.checkpoints.complete, step, self.schedule.tokens, size)

    def _export(self, step: int, model: Path) -> str:
        exports.dress(model, Path(self.job.base_path))
        return self.checkpoints.export(step, model)

    def free_engine(self) -> None:
        """At the end of training. Where that fails the service does it, before the next attempt or when the run is
        over."""
        try:
            self.background.wait(self.policy.unload())
        except RatchetError as error:
            log.warning("policy.not_unloaded", policy=self.job.policy, reason=error.message)

    def _patiently(self, what: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        async def do() -> T:
            try:
                return await asyncio.to_thread(work, *args, **kwargs)
            except RatchetError as error:
                # The first alone: numbers in later ones differ, and each would be another notice.
                self.reporter.waits_for = self.reporter.waits_for or f"{what}: {error.message}"
                raise

        try:
            return self.background.wait(patiently(do, self.job.patience, what))
        finally:
            self.reporter.waits_for = ""
