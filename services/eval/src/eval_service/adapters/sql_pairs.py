"""PairStore on SQLite and PostgreSQL."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, and_, delete, or_, select, update

from eval_service.adapters.tables import pairs
from eval_service.domain.pair import Choice, Pair, Side
from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.sql import Database
from ratchet_kit.text import storable


class SqlPairStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, pair: Pair, request: Request) -> Pair:
        await self._database.insert_if_absent(pairs, _row(pair) | request.columns)
        stored = await self.find(request)
        assert stored is not None
        return stored

    async def find(self, request: Request) -> Pair | None:
        row = await self._database.made_by(request, select(pairs), "pair")
        return None if row is None else _pair(row)

    async def change(self, id: str, change: Callable[[Pair], Pair]) -> Pair:
        async with self._database.writing() as connection:
            row = (await connection.execute(select(pairs).where(pairs.c.id == id).with_for_update())).first()
            if row is None:
                raise NotFound(f"there is no pair {id!r}")
            changed = change(_pair(row))
            await connection.execute(update(pairs).where(pairs.c.id == id).values(_row(changed)))
        return changed

    async def page(self, limit: int, after: str | None, evaluation_id: str = "") -> Sequence[Pair]:
        query = select(pairs).order_by(pairs.c.id.desc())
        if after is not None:
            query = query.where(pairs.c.id < after)
        if evaluation_id:
            query = query.where(or_(pairs.c.left_id == evaluation_id, pairs.c.right_id == evaluation_id))
        return await self._database.readable(query, _pair, limit)

    async def between(self, ids: Sequence[str]) -> Sequence[Pair]:
        query = select(pairs).where(pairs.c.left_id.in_(ids), pairs.c.right_id.in_(ids)).order_by(pairs.c.id)
        return [_pair(row) for row in await self._database.rows(query)]

    async def forget_unvoted(self, before: datetime) -> int:
        old = and_(pairs.c.choice == "", pairs.c.create_time < before)
        async with self._database.writing() as connection:
            return (await connection.execute(delete(pairs).where(old))).rowcount


def _row(pair: Pair) -> dict[str, Any]:
    return {
        "id": pair.id,
        "voter": pair.voter,
        "benchmark": pair.benchmark,
        "problem_id": pair.problem_id,
        "prompt": storable(pair.prompt),
        "left_id": pair.left.evaluation_id,
        "left_index": pair.left.index,
        "left_text": storable(pair.left.text),
        "right_id": pair.right.evaluation_id,
        "right_index": pair.right.index,
        "right_text": storable(pair.right.text),
        "choice": str(pair.choice or ""),
        "create_time": pair.create_time,
        "vote_time": pair.vote_time,
    }


def _pair(row: Row[Any]) -> Pair:
    return Pair(
        row.id,
        row.voter,
        row.benchmark,
        row.problem_id,
        row.prompt,
        Side(row.left_id, row.left_index, row.left_text),
        Side(row.right_id, row.right_index, row.right_text),
        row.create_time,
        Choice(row.choice) if row.choice else None,
        row.vote_time,
    )
