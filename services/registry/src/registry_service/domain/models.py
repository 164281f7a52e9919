"""Models: create, find, list, delete."""

from ratchet_kit.faults import MAX_REASON, Faults
from ratchet_kit.idempotency import Request
from ratchet_kit.logs import get_logger
from ratchet_kit.names import check_model_name
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from registry_service.domain.model import Model
from registry_service.domain.ports import ModelStore

log = get_logger(__name__)


class Models:
    def __init__(self, store: ModelStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def create(self, name: str, description: str, request_id: str) -> Model:
        """Raises InvalidArgument, AlreadyExists."""
        faults = Faults()
        faults.read("name", check_model_name, name)
        faults.length("description", description, MAX_REASON)
        faults.raise_if_any("the model cannot be made")
        model = Model(name, description, self._clock.now())
        return await self._store.create(model, Request.of(request_id, name, description))

    async def get(self, name: str) -> Model:
        """Raises NotFound."""
        return await self._store.get(name)

    async def page(self, page_size: int, page_token: str) -> Page[Model]:
        """By name."""
        return await fetch_page(self._store.page, lambda model: model.name, str, page_size, page_token)

    async def delete(self, name: str) -> None:
        """Raises NotFound, FailedPrecondition when it has or had a version."""
        await self._store.delete(name)
        log.info("model.deleted", model=name)
