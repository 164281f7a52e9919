"""Aliases: which version a name means now, and every version that it ever meant."""

from functools import partial

from ratchet_kit.errors import Aborted, FailedPrecondition, InvalidArgument
from ratchet_kit.faults import check_reason
from ratchet_kit.logs import get_logger
from ratchet_kit.names import CHAMPION, AliasRef, VersionRef, check_alias_name
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from registry_service.domain.model import AliasChange, Model
from registry_service.domain.ports import ArtifactStore, Stores
from registry_service.domain.promotion import check_promotion

log = get_logger(__name__)

_ATTEMPTS = 5


class Aliases:
    def __init__(self, stores: Stores, artifacts: ArtifactStore, clock: Clock) -> None:
        self._stores = stores
        self._artifacts = artifacts
        self._clock = clock

    async def set(
        self,
        ref: AliasRef,
        number: int,
        *,
        expected: int | None = None,
        reason: str = "",
        gate_id: str = "",
        actor: str = "",
        takes_back: bool = False,
    ) -> Model:
        """Points the alias at the version. Pointing it where it points already changes nothing, not even its history.

        `expected` is the number that the caller believes it to be at, 0 for none; None takes any. `actor` is the API
        key that asks for it. `takes_back`: see AliasChange.

        Raises InvalidArgument, NotFound for a missing model, version or gate, FailedPrecondition when the version is
        not READY or may not become champion, Aborted when the alias is not at `expected` or others kept moving it.
        """
        check_alias_name(ref.alias)
        check_reason(reason)
        if takes_back and ref.alias != CHAMPION:
            raise InvalidArgument(f"takes_back is for the alias {CHAMPION}: {ref.alias} was never in production")
        (await self._stores.versions.get(VersionRef(ref.model, number))).check_ready()
        for attempt in range(_ATTEMPTS):
            try:
                return await self._set(ref, number, expected, reason, gate_id, actor, takes_back)
            except Aborted:
                # Somebody moved it first: judge again, against the version that is there now.
                if expected is not None or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def _set(
        self,
        ref: AliasRef,
        number: int,
        expected: int | None,
        reason: str,
        gate_id: str,
        actor: str,
        takes_back: bool,
    ) -> Model:
        model = await self._stores.models.get(ref.model)
        before = model.aliases.get(ref.alias, 0)
        if before == number:
            return model
        if expected not in (None, before):
            raise Aborted(f"alias {ref} is at {before or 'no version'}, not at {expected or 'none'}: read it again")
        gate = await self._stores.gates.get(gate_id) if gate_id else None
        if ref.alias == CHAMPION:
            history = await self._stores.models.history(ref.model, CHAMPION, None, None)
            changes = [entry.change for entry in history]
            check_promotion(model, number, changes, gate)
            if number not in {change.to_number for change in changes}:
                await self._check_policy(VersionRef(ref.model, number))
        now = self._clock.now()
        change = AliasChange(ref.model, ref.alias, before, number, reason, gate_id, now, actor, takes_back)
        changed = await self._stores.models.move_alias(change)
        log.info("alias.moved", alias=str(ref), before=before, now=number, gate=gate_id, by=actor)
        return changed

    async def _check_policy(self, ref: VersionRef) -> None:
        artifact = (await self._stores.versions.get(ref)).artifact
        if artifact is not None and not await self._artifacts.is_policy(artifact.key):
            raise FailedPrecondition(
                f"{ref} is a reward model or another classifier: it scores texts and cannot write, so it cannot be in "
                "production; give it another alias"
            )

    async def history(self, model: str, alias: str, page_size: int, page_token: str) -> Page[AliasChange]:
        """Newest first; of all aliases when `alias` is empty. Raises NotFound when there is no such model."""
        fetch = partial(self._stores.models.history, model, alias or None)
        page = await fetch_page(fetch, lambda entry: entry.position, int, page_size, page_token)
        return page.map(lambda entry: entry.change)
