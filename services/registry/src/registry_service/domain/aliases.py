"""Aliases: which version a name means now, and every version that it ever meant."""

from functools import partial

from ratchet_kit.errors import Aborted
from ratchet_kit.logs import get_logger
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from registry_service.domain.models import CHAMPION, AliasChange, Model, check_alias_name
from registry_service.domain.ports import ModelStore
from registry_service.domain.promotion import check_promotion

log = get_logger(__name__)

_ATTEMPTS = 5


class Aliases:
    def __init__(self, store: ModelStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def set(self, model: str, alias: str, version: int, reason: str, gate_id: str) -> Model:
        """Points the alias at the version. Pointing it where it points already changes nothing, not even its history.

        Raises NotFound for a missing model, version or gate, FailedPrecondition when the version may not become
        champion, Aborted when others kept moving the alias meanwhile.
        """
        check_alias_name(alias)
        await self._store.get_version(model, version)
        for attempt in range(_ATTEMPTS):
            try:
                return await self._set(model, alias, version, reason, gate_id)
            except Aborted:
                # Somebody moved it first: judge again, against the version that is there now.
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def _set(self, name: str, alias: str, version: int, reason: str, gate_id: str) -> Model:
        model = await self._store.get_model(name)
        before = model.aliases.get(alias, 0)
        if before == version:
            return model
        gate = await self._store.get_gate(gate_id) if gate_id else None
        if alias == CHAMPION:
            check_promotion(model, version, await self._store.past_versions(name, alias), gate)
        change = AliasChange(name, alias, before, version, reason, gate_id, self._clock.now())
        changed = await self._store.move_alias(change)
        log.info("alias.moved", model=name, alias=alias, before=before, now=version, gate=gate_id)
        return changed

    async def history(self, model: str, alias: str, page_size: int, page_token: str) -> Page[AliasChange]:
        """Newest first; of all aliases when `alias` is empty."""
        fetch = partial(self._store.list_alias_history, model, alias or None)
        page = await fetch_page(fetch, lambda entry: entry.position, int, page_size, page_token)
        return page.map(lambda entry: entry.change)
