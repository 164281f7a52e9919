"""GateStore on SQLite and PostgreSQL."""

from collections.abc import Callable, Sequence
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ratchet_kit.errors import NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.sql import Database, insert_if_absent, is_free
from registry_service.adapters.sql.models import readable_of, version_of
from registry_service.adapters.sql.rows import gate_row, to_gate
from registry_service.adapters.sql.tables import gates
from registry_service.domain.gate import Gate, State


class SqlGateStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, gate: Gate, request: Request) -> Gate:
        async with self._database.writing() as connection:
            for ref in (gate.spec.candidate, gate.champion):
                (await version_of(connection, ref, shared=True)).check_ready()
            await insert_if_absent(connection, gates, gate_row(gate) | request.columns)
        stored = await self.find(request)
        assert stored is not None
        return stored

    async def find(self, request: Request) -> Gate | None:
        row = await self._database.made_by(request, select(gates), "gate")
        return None if row is None else to_gate(row)

    async def get(self, id: str) -> Gate:
        row = await self._database.first(select(gates).where(gates.c.id == id))
        if row is None:
            raise NotFound(f"there is no gate {id}")
        return to_gate(row)

    async def page(self, model: str, limit: int, after: str | None) -> Sequence[Gate]:
        query = select(gates).where(gates.c.model == model).order_by(gates.c.id.desc())
        if after is not None:
            query = query.where(gates.c.id < after)
        return await readable_of(self._database, model, query, to_gate, limit)

    async def change(self, id: str, change: Callable[[Gate], Gate]) -> Gate:
        async with self._database.writing() as connection:
            return await _change(connection, id, change)

    async def waiting(self, now: datetime) -> Sequence[Gate]:
        query = select(gates).where(gates.c.state == State.PENDING, is_free(gates, now)).order_by(gates.c.id)
        return await self._database.readable(query, to_gate)


async def _change(connection: AsyncConnection, id: str, change: Callable[[Gate], Gate]) -> Gate:
    row = (await connection.execute(select(gates).where(gates.c.id == id).with_for_update())).first()
    if row is None:
        raise NotFound(f"there is no gate {id}")
    changed = change(to_gate(row))
    await connection.execute(update(gates).where(gates.c.id == id).values(gate_row(changed)))
    return changed
