"""PairStore in memory, for tests: the same promises, for one process."""

from collections.abc import Callable, Sequence
from datetime import datetime

from eval_service.domain.pair import Pair
from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Made, Request


class MemoryPairStore:
    def __init__(self) -> None:
        self._pairs: dict[str, Pair] = {}
        self._made: Made[str] = Made("pair")

    async def create(self, pair: Pair, request: Request) -> Pair:
        existing = await self.find(request)
        if existing is not None:
            return existing
        self._pairs[pair.id] = pair
        self._made.add(request, pair.id)
        return pair

    async def find(self, request: Request) -> Pair | None:
        id = self._made.find(request)
        return None if id is None else self._pairs[id]

    async def change(self, id: str, change: Callable[[Pair], Pair]) -> Pair:
        if id not in self._pairs:
            raise NotFound(f"there is no pair {id!r}")
        self._pairs[id] = change(self._pairs[id])
        return self._pairs[id]

    async def page(self, limit: int, after: str | None, evaluation_id: str = "") -> Sequence[Pair]:
        ids = sorted((id for id in self._pairs if after is None or id < after), reverse=True)
        return [self._pairs[id] for id in ids if _of(self._pairs[id], evaluation_id)][:limit]

    async def between(self, ids: Sequence[str]) -> Sequence[Pair]:
        pairs = [self._pairs[id] for id in sorted(self._pairs)]
        return [pair for pair in pairs if {pair.left.evaluation_id, pair.right.evaluation_id} <= set(ids)]

    async def forget_unvoted(self, before: datetime) -> int:
        old = {pair.id for pair in self._pairs.values() if pair.choice is None and pair.create_time < before}
        self._pairs = {id: pair for id, pair in self._pairs.items() if id not in old}
        self._made.remove(old)
        return len(old)


def _of(pair: Pair, evaluation_id: str) -> bool:
    return evaluation_id in ("", pair.left.evaluation_id, pair.right.evaluation_id)
