"""ExchangeStore in memory, for tests: over the request log in memory, which adds to it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from gateway_service.domain.traffic.exchange import Accepted, Choice, Exchange, Selection
from gateway_service.domain.traffic.metrics import NO_METRICS, Metrics
from gateway_service.domain.traffic.ports import NO_SCORE
from gateway_service.domain.traffic.record import Unit, unit_id
from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Request

from .memory import MemoryCompletionLog


class MemoryExchangeStore:
    def __init__(self, log: MemoryCompletionLog) -> None:
        self._log = log

    async def get(self, completion_id: str) -> Exchange:
        if completion_id not in self._log.exchanges:
            raise NotFound(f"nothing is kept of completion {completion_id}")
        return self._log.exchanges[completion_id]

    async def some(self, completion_ids: Sequence[str]) -> Sequence[Exchange]:
        return [self._log.exchanges[id] for id in completion_ids if id in self._log.exchanges]

    async def beside(self, exchange: Exchange, limit: int) -> Sequence[Exchange]:
        def sender(one: Exchange) -> object:
            return one.session or (one.key_id, one.user)

        same = sorted((one for one in self._log.exchanges.values() if sender(one) == sender(exchange)), key=_id)
        before = [one for one in same if one.id < exchange.id]
        return [*before[-limit:], *[one for one in same if one.id > exchange.id][:limit]]

    async def page(self, selection: Selection, limit: int, after: str | None) -> Sequence[Exchange]:
        newest_first = sorted(self._log.exchanges.values(), key=lambda one: one.id, reverse=True)
        wanted = [one for one in newest_first if _is_in(one, selection)]
        return [one for one in wanted if after is None or one.id < after][:limit]

    async def accept(
        self, completion_id: str, accepted: Accepted, request: Request, metrics: Metrics = NO_METRICS
    ) -> None:
        await self._add(replace(await self.get(completion_id), accepted=accepted), request, metrics)

    async def choose(self, completion_id: str, choice: Choice, request: Request, metrics: Metrics = NO_METRICS) -> None:
        exchange = await self.get(completion_id)
        known = exchange.choices if choice in exchange.choices else (*exchange.choices, choice)
        await self._add(replace(exchange, choices=known), request, metrics)

    async def forget(self, unit: Unit, name: str, before: datetime) -> int:
        return self._log.forget(unit_id(unit, name), before)

    async def unconfirmed(self) -> Mapping[str, datetime]:
        return dict(self._log.unconfirmed)

    async def confirm(self, units: Mapping[str, datetime]) -> None:
        self._log.unconfirmed = {unit: it for unit, it in self._log.unconfirmed.items() if units.get(unit) != it}

    async def remove(self, before: datetime) -> int:
        old = [one.id for one in self._log.exchanges.values() if one.start_time < before]
        for id in old:
            del self._log.exchanges[id]
        return len(old)

    async def _add(self, exchange: Exchange, request: Request, metrics: Metrics) -> None:
        if self._log.feedback.find(request) is None:
            self._log.measure(exchange.id, metrics)
            self._log.exchanges[exchange.id] = exchange
            self._log.feedback.add(request, NO_SCORE)


def _id(exchange: Exchange) -> str:
    return exchange.id


def _is_in(exchange: Exchange, selection: Selection) -> bool:
    return (
        selection.model in ("", exchange.version.model)
        and selection.key_id in ("", exchange.key_id)
        and (selection.start_time is None or exchange.start_time >= selection.start_time)
        and (selection.end_time is None or exchange.start_time < selection.end_time)
        and (not selection.session or exchange.session == unit_id(Unit.SESSION, selection.session))
        and (not selection.accepted or exchange.accepted is not None)
        and (not selection.compared or exchange.is_compared)
    )
