"""The use cases around what is kept of production: list it, learn from it, add to it, forget it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from gateway_service.domain.keys.caller import caller
from gateway_service.domain.keys.ports import KeyStore
from gateway_service.domain.traffic import lessons
from gateway_service.domain.traffic.episodes import Episode, episode
from gateway_service.domain.traffic.exchange import MAX_CHOICES, Accepted, Choice, Exchange, Selection
from gateway_service.domain.traffic.lessons import Lesson, Pair
from gateway_service.domain.traffic.metrics import Metrics
from gateway_service.domain.traffic.ports import ExchangeStore
from gateway_service.domain.traffic.record import Unit
from gateway_service.domain.traffic.recorder import Recorder
from gateway_service.domain.traffic.redaction import Redaction
from ratchet_kit.errors import FailedPrecondition, NotFound
from ratchet_kit.faults import Faults
from ratchet_kit.idempotency import Request
from ratchet_kit.pages import Page, encode_token, fetch_page
from ratchet_kit.times import Clock

MAX_PAGE = 200
MAX_COMPARED = 50
"""Each may be compared with MAX_CHOICES others."""
MAX_PAGE_CHARACTERS = 512 * 1024
"""A page with more ends early: an exchange may be long, and so must no answer of the gateway be."""


class Exchanges:
    def __init__(
        self,
        store: ExchangeStore,
        keys: KeyStore,
        recorder: Recorder,
        redaction: Redaction,
        clock: Clock,
    ) -> None:
        self._store = store
        self._keys = keys
        self._recorder = recorder
        self._redaction = redaction
        self._clock = clock

    async def page(self, selection: Selection, page_size: int, page_token: str) -> Page[Exchange]:
        """Newest first. Raises InvalidArgument for a page token that no list returned, or a time after another."""
        faults = Faults()
        start, end = selection.start_time, selection.end_time
        faults.unless(start is None or end is None or start < end, "end_time", "must be after start_time")
        faults.raise_if_any()
        fetch = partial(self._store.page, selection)
        found = await fetch_page(fetch, lambda one: one.id, str, min(page_size or MAX_PAGE, MAX_PAGE), page_token)
        return _cut(found)

    async def episode(self, completion_id: str) -> Episode:
        """Raises NotFound."""
        return await episode(self._store, completion_id)

    async def pairs(self, selection: Selection, page_size: int, page_token: str) -> Page[Pair]:
        """Of a page of exchanges, at most MAX_COMPARED, that were compared. As `page`."""
        selection = replace(selection, compared=True)
        page = await self.page(selection, min(page_size or MAX_COMPARED, MAX_COMPARED), page_token)
        others = {choice.over_id for one in page.items for choice in one.choices} - {one.id for one in page.items}
        known = {one.id: one for one in (*page.items, *await self._store.some(sorted(others)))}
        found, characters = list[Pair](), 0
        for place, one in enumerate(page.items):
            new = list(lessons.pairs(one, known))
            characters += sum(pair.characters for pair in new)
            if found and characters > MAX_PAGE_CHARACTERS:
                return Page(found, encode_token(page.items[place - 1].id))
            found += new
        return Page(found, page.next_page_token)

    async def problems(self, selection: Selection, page_size: int, page_token: str) -> Page[Lesson]:
        """Of a page of exchanges with an accepted text. As `page`."""
        page = await self.page(replace(selection, accepted=True), page_size, page_token)
        return Page([made for one in page.items if (made := lessons.lesson(one))], page.next_page_token)

    async def accept(self, completion_id: str, accepted: Accepted, request: Request, metrics: Metrics) -> None:
        """Keeps, redacted, what was used in place of an answer; a later one replaces it. Idempotent under `request`.

        Raises InvalidArgument where there is no such answer, NotFound, FailedPrecondition and PermissionDenied as
        `_kept`, AlreadyExists when the request id was used for other feedback.
        """
        exchange = await self._kept(completion_id)
        _require_answer(exchange, accepted.index, "accepted.index")
        redacted = Accepted(await self._redaction.text(accepted.text), accepted.index)
        await self._store.accept(exchange.id, redacted, request, metrics)

    async def choose(self, completion_id: str, choice: Choice, request: Request, metrics: Metrics) -> None:
        """Keeps which of two answers to one prompt is better. Idempotent, also under `request`.

        Raises InvalidArgument where there are no such answers, or where their prompts differ, and what `accept` does.
        """
        better = await self._kept(completion_id)
        worse = await self._kept(choice.over_id) if choice.over_id != better.id else better
        _require_answer(better, choice.index, "choice.index")
        _require_answer(worse, choice.over_index, "choice.over_index")
        faults = Faults()
        same = (choice.over_id, choice.over_index) == (better.id, choice.index)
        faults.unless(not same, "choice.over_index", "must be another answer than the better one")
        alike = better.material.prompt == worse.material.prompt
        faults.unless(alike, "choice.over_id", "must be a completion of the same prompt")
        faults.raise_if_any()
        if choice not in better.choices and len(better.choices) >= MAX_CHOICES:
            raise FailedPrecondition(f"completion {better.id} has {MAX_CHOICES} choices, the maximum")
        await self._store.choose(better.id, choice, request, metrics)

    async def forget(self, unit: Unit, name: str) -> int:
        """Removes all texts of what came so far from a user, a session or a key. How many completions had some.

        Raises InvalidArgument without a name.
        """
        faults = Faults()
        faults.required("key_id" if unit is Unit.KEY else unit, name)
        faults.raise_if_any()
        now = self._clock.now()
        await self._recorder.flush()
        return await self._store.forget(unit, name, now)

    async def _kept(self, completion_id: str) -> Exchange:
        """An exchange to which the caller may add.

        Raises NotFound, PermissionDenied for another key's, FailedPrecondition where its key does not consent, or not
        any more.
        """
        exchange = await self._find(completion_id)
        caller().require_own(completion_id, exchange.key_id)
        key = await self._keys.get(exchange.key_id)
        if not key.keep_traffic or key.revoke_time:
            raise FailedPrecondition(f"the API key of completion {completion_id} keeps no traffic any more")
        return exchange

    async def _find(self, completion_id: str) -> Exchange:
        """It is stored with the record of its completion, and outlives that. Of another key's only this is said."""
        with suppress(NotFound):
            return await self._store.get(completion_id)
        record = await self._recorder.stored(completion_id)
        caller().require_own(completion_id, record.key_id)
        try:
            return await self._store.get(completion_id)
        except NotFound as error:
            raise FailedPrecondition(f"the texts of completion {completion_id} are not kept") from error


def _require_answer(exchange: Exchange, index: int, field: str) -> None:
    """Raises InvalidArgument where the exchange has no such text."""
    faults = Faults()
    there = index >= 0 and exchange.answer(index) is not None
    faults.unless(there, field, f"must be of a text among the answers of {exchange.id}, from 0")
    faults.raise_if_any()


def _cut(page: Page[Exchange]) -> Page[Exchange]:
    """The first of them, as many as have room; one at least."""
    characters = 0
    for count, one in enumerate(page.items):
        characters += one.characters
        if count and characters > MAX_PAGE_CHARACTERS:
            items: Sequence[Exchange] = page.items[:count]
            return Page(items, encode_token(items[-1].id))
    return page
