"""The registry's models in another registry, such as MLflow's: what is there is compared with what is here, and made
the same. The registry is the truth, so that nothing is kept of it, and a restart begins with a comparison."""

from dataclasses import replace

from ratchet_kit.errors import NotFound, RatchetError
from ratchet_kit.logs import get_logger
from trainer_service.domain.run.ports import RunStore
from trainer_service.domain.run.run import RunId
from trainer_service.domain.work.ports import Catalogue, Mirror, MirroredModel, MirroredVersion

log = get_logger(__name__)


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
