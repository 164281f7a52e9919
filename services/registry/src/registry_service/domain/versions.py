"""Versions: create, find, list, watch, delete. `copies.py` makes them ready."""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any

from ratchet_kit import work
from ratchet_kit.errors import NotFound
from ratchet_kit.faults import Faults
from ratchet_kit.idempotency import Request, once
from ratchet_kit.logs import get_logger
from ratchet_kit.names import AliasRef, VersionRef, check_model_name
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from ratchet_problems.messages import MOST_SYSTEM
from registry_service.domain.copies import Uploads
from registry_service.domain.ports import ModelStore, VersionFilter, VersionStore
from registry_service.domain.version import Version, VersionSpec

log = get_logger(__name__)

MAX_TEXT = 2000
"""Characters of one text about where a version comes from, and of a label."""
MAX_LABELS = 100
ALL = "-"
"""In place of a model's name: all models (https://google.aip.dev/159)."""
MAX_DRAWN = 1000
"""Sets that a version's run drew from beside its first."""


class Versions:
    def __init__(
        self, store: VersionStore, models: ModelStore, queue: work.Queue, uploads: Uploads, clock: Clock
    ) -> None:
        self._store = store
        self._models = models
        self._queue = queue
        self._uploads = uploads
        self._clock = clock

    async def create(
        self,
        spec: VersionSpec,
        request_id: str,
        training_fingerprints: Collection[str] = (),
        selection_fingerprints: Collection[str] = (),
        drawn_fingerprints: Sequence[Collection[str]] = (),
    ) -> Version:
        """Gives the version its number and leaves its copy to a worker.

        The fingerprints are of the problems of `lineage.data_digest`, of `lineage.selection_digest`, and of each of
        `lineage.drawn_digests`. Raises InvalidArgument, AlreadyExists when the request id was used for another version.
        """
        faults = Faults()
        faults.read("model", check_model_name, spec.model)
        if faults.required("source_uri", spec.source_uri):
            faults.read("source_uri", self._uploads.check, spec.source_uri)
        for name in ("run_id", "data_digest", "config_digest", "code_version", "selection_digest"):
            faults.length(f"lineage.{name}", getattr(spec.lineage, name) or "", MAX_TEXT)
        faults.length("lineage.system", spec.lineage.system, MOST_SYSTEM)
        faults.length("drawn_problems", spec.lineage.drawn_digests, MAX_DRAWN)
        for place, digest in enumerate(spec.lineage.drawn_digests[:MAX_DRAWN]):
            field = f"drawn_problems[{place}].digest"
            if faults.required(field, digest):
                faults.length(field, digest, MAX_TEXT)
        faults.length("labels", spec.labels, MAX_LABELS)
        for name, value in list(spec.labels.items())[:MAX_LABELS]:
            faults.length("labels", f"{name}{value}", MAX_TEXT)
        sets = {"data_digest": training_fingerprints, "selection_digest": selection_fingerprints}
        for name, fingerprints in sets.items():
            if fingerprints:
                faults.required(f"lineage.{name}", getattr(spec.lineage, name))
        faults.raise_if_any("the version cannot be made")
        lineage = asdict(spec.lineage) | {"base": str(spec.lineage.base or "")}
        if lineage["selection_digest"] is None:  # the request is what it was before there was one
            del lineage["selection_digest"]
        if not lineage["system"]:
            del lineage["system"]
        if not lineage["drawn_digests"]:
            del lineage["drawn_digests"]
        known = {getattr(spec.lineage, name) or "": fingerprints for name, fingerprints in sets.items()}
        known |= dict(zip(spec.lineage.drawn_digests, drawn_fingerprints, strict=True))
        request = Request.of(request_id, spec.model, spec.source_uri, lineage, dict(spec.labels))

        async def create() -> Version:
            for digest, fingerprints in known.items():
                if fingerprints:
                    await self._store.add_problems(digest, fingerprints)
            version = await self._store.create(spec, self._clock.now(), request)
            await work.enqueue(self._queue, version.id)
            log.info("version.created", version=version.id, source=spec.source_uri)
            return version

        return await once(partial(self._store.find, request), create)

    async def get(self, ref: VersionRef | AliasRef) -> Version:
        """By its number, or by an alias that points at it. Raises NotFound."""
        if isinstance(ref, VersionRef):
            return await self._store.get(ref)
        aliases = (await self._models.get(ref.model)).aliases
        if ref.alias not in aliases:
            there = ", ".join(sorted(aliases)) or "none"
            raise NotFound(f"model {ref.model} has no alias {ref.alias!r}; it has {there}")
        return await self._store.get(VersionRef(ref.model, aliases[ref.alias]))

    async def page(
        self, model: str, page_size: int, page_token: str, only: VersionFilter = VersionFilter()
    ) -> Page[Version]:
        """Newest first; of all models for ALL, by model. Raises NotFound when there is no such model."""

        async def fetch(limit: int, after: list[Any] | None) -> Sequence[Version]:
            return await self._store.page(None if model == ALL else model, limit, after, only)

        kind = (str, int)
        return await fetch_page(fetch, lambda one: [one.ref.model, one.ref.number], kind, page_size, page_token)

    def watch(self, ref: VersionRef) -> AsyncIterator[Version]:
        """The version as it is, then READY or FAILED. Raises NotFound."""
        return work.watch(
            partial(self._store.get, ref), lambda version: version.state.is_final, key=lambda version: version.state
        )

    async def delete(self, ref: VersionRef) -> None:
        """Deletes the version and its artifact. Raises what VersionStore.delete raises."""
        version = await self._store.delete(ref, self._clock.now())
        log.info("version.deleted", version=version.id)
        if version.artifact is not None:
            await self._uploads.discard(version.artifact.key)

    async def sweep(self, older_than: timedelta) -> int:
        """Removes the files of uploads that are no version's, and says how many there were."""
        return await self._uploads.sweep(self._clock.now() - older_than)
