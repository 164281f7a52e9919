"""Metrics of completions: written in the transactions of feedback."""

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway_service.adapters.sql.tables import completions
from gateway_service.domain.traffic.metrics import Metrics, merged


async def add(connection: AsyncConnection, completion_id: str, metrics: Metrics) -> bool:
    """False where there is no such completion. Raises FailedPrecondition where it would have too many."""
    own = completions.c.id == completion_id
    found = select(completions.c.metrics).where(own).with_for_update()
    row = (await connection.execute(found)).one_or_none()
    if row is None:
        return False
    if metrics:
        values = merged(completion_id, row.metrics, metrics)
        await connection.execute(update(completions).where(own).values(metrics=values))
    return True
