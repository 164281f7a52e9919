"""The registry's models in another registry, such as MLflow's: what is there is compared with what is here, and made
the same. The registry is the truth, so that nothing is kept of it, and a restart begins with a comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ratchet_kit.errors import NotFound, RatchetError
from ratchet_kit.logs import get_logger
from trainer_service.domain.ports import RunStore
from trainer_service.domain.run.run import RunId

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class MirroredModel:
    name: str
    description: str
    aliases: Mapping[str, int]
    """Alias -> number of the version that it points at."""
    latest: int
    """The highest number given so far."""


@dataclass(frozen=True, slots=True)
class MirroredVersion:
    """A version that is READY."""

    number: int
    uri: str
    policy_id: str
    run_id: str
    """Empty where no run made it."""
    key: str = ""
    """What the tracker calls that run."""
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MirroredVersions:
    ready: Sequence[MirroredVersion]
    """The oldest first."""
    is_settled: bool
    """None is being made."""


class Catalogue(Protocol):
    """The registry, to be read. Both raise Unavailable."""

    async def models(self) -> Sequence[MirroredModel]: ...

    async def versions(self, model: str) -> MirroredVersions: ...


class Mirror(Protocol):
    async def reflect(self, model: MirroredModel, versions: Sequence[MirroredVersion]) -> None:
        """Adds the versions that are missing there, and points the aliases at them. Raises RatchetError."""
        ...


class ModelMirror:
    def __init__(self, catalogue: Catalogue, mirror: Mirror, store: RunStore, tracker: str) -> None:
        """`tracker`: what runs are shown in, to which their versions are linked."""
        self._catalogue = catalogue
        self._mirror = mirror
        self._store = store
        self._tracker = tracker
        self._seen: dict[str, MirroredModel] = {}

    async def look(self) -> None:
        """Models that have not changed since the last look are passed over."""
        for model in await self._catalogue.models():
            if self._seen.get(model.name) == model:
                continue
            found = await self._catalogue.versions(model.name)
            linked = [await self._linked(version) for version in found.ready]
            try:
                await self._mirror.reflect(model, linked)
            except RatchetError as error:
                log.warning("model.not_mirrored", model=model.name, reason=error.message)
                continue
            if found.is_settled:
                self._seen[model.name] = model

    async def _linked(self, version: MirroredVersion) -> MirroredVersion:
        try:
            run = await self._store.get(RunId(version.run_id)) if version.run_id else None
        except NotFound:  # deleted
            run = None
        if run is None:
            return version
        track, best = run.track(self._tracker), run.best_checkpoint
        score = best.validation_score if best else None
        metrics = {} if score is None else {"validation_score": score}
        return replace(version, key=track.key if track else "", metrics=metrics)
