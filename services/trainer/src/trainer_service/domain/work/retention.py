"""Removes leavings of runs: some time after their end, or where all of them take too much space."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ratchet_kit import retention
from ratchet_kit.errors import FailedPrecondition, NotFound
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock
from ratchet_kit.work import surviving
from trainer_service.domain.inputs.found import Stored
from trainer_service.domain.inputs.ports import ModelFolders
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.ports import RunStore
from trainer_service.domain.run.run import Run, RunId
from trainer_service.domain.run.sample import SampleStore
from trainer_service.domain.work.needs import Needs

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Removable:
    """Something that a run which is over has, and nobody needs."""

    run: Run
    stored: Stored
    checkpoint: Checkpoint | None
    """An export's; None for another thing, and for an export that was never reported, or made again."""

    @property
    def age(self) -> tuple[Any, ...]:
        """The oldest first; of a run its exports in their order, and then what it could go on from."""
        assert self.run.end_time is not None
        return self.run.end_time, self.run.id, not self.stored.export, self.checkpoint.step if self.checkpoint else 0


class Retention:
    def __init__(
        self, store: RunStore, folders: ModelFolders, samples: SampleStore, needs: Needs, clock: Clock
    ) -> None:
        self._store = store
        self._folders = folders
        self._samples = samples
        self._needs = needs
        self._clock = clock

    async def remove_checkpoints(self, before: datetime) -> int:
        """Of runs that ended before then; how many had some."""
        removed = 0
        for id in await self._folders.with_leftovers():
            with surviving("remove checkpoints", run_id=id):
                if await self._ended(id, before):
                    await self._folders.tidy(id)
                    removed += 1
        return removed

    async def remove_exports(self, before: datetime) -> int:
        """The models that runs exported which ended before then, all but the best of each, and those that somebody
        needs; how many."""
        removed = 0
        if not (old := await self._store.superseded(before)):
            return 0
        needed = await self._needs.exports()
        for id, checkpoint in old:
            with surviving("remove exports", run_id=id, step=checkpoint.step):
                if (id, checkpoint.step) not in needed:
                    await self._folders.remove_export(id, checkpoint.uri)
                    await self._store.delete_checkpoint(id, checkpoint.step)
                    removed += 1
        return removed

    async def remove_samples(self, before: datetime) -> int:
        """Removes those of runs that ended before then. Returns how many had some."""
        removed = 0
        for id in await self._samples.with_samples():
            with surviving("remove samples", run_id=id):
                if await self._ended(id, before):
                    await self._samples.remove(id)
                    removed += 1
        return removed

    async def bound_checkpoints(self, most: int) -> None:
        """Where checkpoints and exports of all runs take more than `most` bytes, removes the oldest of those that
        nobody needs. A run that is under way keeps what it has, and one that is over its best export. Raises
        Unavailable."""
        of_runs = [(run, one) for one in await self._folders.stored() if (run := await self._known(one.run_id))]
        excess = sum(one.size_bytes for _, one in of_runs) - most
        if excess <= 0:
            return
        needed = await self._needs.exports()
        found = [one for run, stored in of_runs if (one := await self._removable(run, stored, needed))]
        for one in sorted(found, key=lambda one: one.age):
            if excess <= 0:
                return
            with surviving("bound checkpoints", run_id=one.run.id):
                await self._make_room(one, most)
                excess -= one.stored.size_bytes
        if excess > 0:
            log.warning("checkpoints.too_many", most=most, excess=excess, hint="delete runs: ratchet runs delete")

    async def _removable(self, run: Run, stored: Stored, needed: Collection[tuple[RunId, int]]) -> Removable | None:
        if not run.state.is_final:
            return None
        if not stored.export:
            return Removable(run, stored, None)
        checkpoints = await self._store.checkpoints(run.id, run.spec.steps + 1, -1)
        checkpoint = next((one for one in checkpoints if _name(one.uri) == _name(stored.export)), None)
        is_best = checkpoint is not None and checkpoint == run.best_checkpoint
        if is_best or any(id == run.id and _name(stored.export).startswith(f"step-{step}-") for id, step in needed):
            return None
        return Removable(run, stored, checkpoint)

    async def _make_room(self, one: Removable, most: int) -> None:
        """Says on the run what is removed, and removes it; raises FailedPrecondition where the run was resumed."""
        what = f"the model of step {one.checkpoint.step}" if one.checkpoint else "an export that was not reported"
        if not one.stored.export:
            what = "what it would go on from when it is resumed: it begins at its base"
        size, bound = f"{one.stored.size_bytes / 1e9:.2f} GB", f"{most / 1e9:.2f} GB"
        notice = f"removed {what} ({size}), since checkpoints of all runs take more than {bound}"

        def noticed(run: Run, _: Sequence[Checkpoint] = ()) -> Run:
            if not run.state.is_final:
                raise FailedPrecondition(f"run {run.id} was resumed")
            return run.noticed(notice, self._clock.now())

        if one.checkpoint:
            uri = one.checkpoint.uri
            await self._store.change_checkpoint(one.run.id, one.checkpoint.step, lambda it: it.deleted(uri), noticed)
        else:
            await self._store.change(one.run.id, noticed)
        if one.stored.export:
            await self._folders.remove_export(one.run.id, one.stored.export)
        else:
            await self._folders.tidy(one.run.id)
        retention.removed("checkpoints", 1, run_id=one.run.id, size_bytes=one.stored.size_bytes, most=most)

    async def _known(self, id: RunId) -> Run | None:
        """None for a folder of no run that is known here: it is somebody else's."""
        try:
            return await self._store.get(id)
        except NotFound:
            return None

    async def _ended(self, id: RunId, before: datetime) -> bool:
        run = await self._known(id)
        return run is not None and run.end_time is not None and run.end_time < before


def _name(uri: str) -> str:
    """The name of an export within its run, however its folder is spelt."""
    return uri.rstrip("/").rpartition("/")[2]
