"""Models and their versions: create, find, list."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import partial

from ratchet_kit.errors import AlreadyExists, InvalidArgument, NotFound, RatchetError
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from registry_service.domain.models import (
    Lineage,
    Model,
    Version,
    VersionDraft,
    check_model_name,
    check_present,
)
from registry_service.domain.ports import ArtifactStore, ModelStore

log = get_logger(__name__)


class Catalog:
    def __init__(self, store: ModelStore, artifacts: ArtifactStore, clock: Clock) -> None:
        self._store = store
        self._artifacts = artifacts
        self._clock = clock

    async def create_model(self, name: str, description: str) -> Model:
        """Raises InvalidArgument, AlreadyExists."""
        return await self._store.create_model(Model(check_model_name(name, "name"), description, self._clock.now()))

    async def get_model(self, name: str) -> Model:
        return await self._store.get_model(name)

    async def list_models(self, page_size: int, page_token: str) -> Page[Model]:
        return await fetch_page(self._store.list_models, lambda model: model.name, str, page_size, page_token)

    async def create_version(
        self, model: str, source_uri: str, lineage: Lineage, labels: Mapping[str, str], request_id: str
    ) -> Version:
        """Copies the artifact, then writes the version: nobody ever sees half of one.

        Raises what ArtifactStore.ingest raises, InvalidArgument for a bad name, AlreadyExists for a request id that
        was used for another version.
        """
        check_model_name(model)
        check_present(source_uri=source_uri)
        request = Request.of(request_id, model, source_uri, asdict(lineage), dict(labels))
        if existing := await self._store.version_of_request(request):
            return existing
        upload = f"{model}/{new_id('art')}"
        await self._store.begin_upload(upload, self._clock.now())
        try:
            artifact = await self._artifacts.ingest(source_uri, upload)
            draft = VersionDraft(model, artifact, lineage, dict(labels), self._clock.now())
            version = await self._store.add_version(draft, upload, request)
        except AlreadyExists as error:
            # The same request, sent twice at once: the other one has made the version.
            await self._discard(upload)
            winner = await self._store.version_of_request(request)
            if winner is None:
                raise error
            return winner
        except RatchetError:
            await self._discard(upload)
            raise
        log.info("version.created", version=version.name, policy_id=version.policy_id, bytes=artifact.size_bytes)
        return version

    async def get_version(self, model: str, number: int) -> Version:
        if number < 1:
            raise InvalidArgument(f"a version's number is 1 or more, not {number}")
        return await self._store.get_version(model, number)

    async def get_version_by_alias(self, model: str, alias: str) -> Version:
        aliases = (await self._store.get_model(model)).aliases
        if alias not in aliases:
            raise NotFound(f"model {model} has no alias {alias!r}; it has {', '.join(sorted(aliases)) or 'none'}")
        return await self._store.get_version(model, aliases[alias])

    async def list_versions(self, model: str, page_size: int, page_token: str) -> Page[Version]:
        fetch = partial(self._store.list_versions, model)
        return await fetch_page(fetch, lambda version: version.number, int, page_size, page_token)

    async def sweep(self, older_than: timedelta) -> int:
        """Removes the files of uploads that nobody finished, and says how many there were."""
        leftovers = await self._store.uploads_before(self._clock.now() - older_than)
        for upload in leftovers:
            await self._discard(upload)
        return len(leftovers)

    async def _discard(self, upload: str) -> None:
        # The store goes first: whatever went wrong, the files of a version that was written stay. The note goes last:
        # when the files cannot be removed now, the next sweep tries again.
        if await self._store.abandon_upload(upload):
            await self._artifacts.delete(upload)
            await self._store.end_upload(upload)
