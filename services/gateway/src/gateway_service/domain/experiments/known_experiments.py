"""The experiments under way in memory, so that no request asks the database for them."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

from gateway_service.domain.experiments.assignment import Assignment, assign
from gateway_service.domain.experiments.experiment import Experiment, State
from gateway_service.domain.experiments.ports import ExperimentStore
from gateway_service.domain.serving import Serving
from gateway_service.domain.traffic.record import Unit
from ratchet_kit.errors import RatchetError
from ratchet_kit.names import VersionRef
from ratchet_kit.work import every


class KnownExperiments:
    """Reads the store once in `refresh`: so long, at most, does a gateway act on what another one has changed."""

    def __init__(self, store: ExperimentStore, serving: Serving, refresh: timedelta) -> None:
        self._store = store
        self._serving = serving
        self._refresh = refresh
        self._by_model: Mapping[str, Sequence[Experiment]] = {}

    def assign(self, model: str, units: Mapping[Unit, str]) -> Assignment | None:
        """A request's place in an experiment of the model, if it has one."""
        return assign(self._by_model.get(model, ()), units)

    def is_released(self, ref: VersionRef) -> bool:
        """True if a running experiment gives the version traffic."""
        found = (one for one in self._by_model.get(ref.model, ()) if one.state is State.RUNNING)
        return any(variant.version == ref for one in found for variant in one.spec.variants)

    async def run(self, stop: asyncio.Event) -> None:
        await every(self._refresh, stop, self.refresh, name="know experiments")

    async def refresh(self) -> None:
        """Raises Unavailable; what was known stays as it is then. Loads the versions of running experiments."""
        active = [one for one in await self._store.active() if one.spec.replay is None]
        by_model: dict[str, list[Experiment]] = {}
        for experiment in active:
            by_model.setdefault(experiment.model, []).append(experiment)
        self._by_model = by_model
        for version in {
            variant.version for one in active if one.state is State.RUNNING for variant in one.spec.variants
        }:
            await self._load(version)

    async def _load(self, version: VersionRef) -> None:
        with suppress(RatchetError):  # Serving logs it; a request that needs the version waits for it, or hears of it
            await self._serving.ensure(version, wait=timedelta(0))
