"""Exports that somebody reads: whatever is deleted to make room, these are not."""

from collections.abc import Collection

from trainer_service.domain.run.ports import RunStore
from trainer_service.domain.run.run import RunId
from trainer_service.domain.work.ports import VersionRegistry


class Needs:
    def __init__(self, store: RunStore, registry: VersionRegistry) -> None:
        self._store = store
        self._registry = registry

    async def exports(self) -> Collection[tuple[RunId, int]]:
        """Runs and steps of the models that a run under way starts from, or that the registry copies now. Raises
        Unavailable."""
        parents = [one.spec.parent for one in await self._store.unfinished() if one.spec.parent]
        return {(RunId(one.run_id), one.step) for one in parents} | {*await self._registry.copying()}
