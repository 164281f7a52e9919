"""The tokens of keys, by month."""

from collections import Counter
from collections.abc import Sequence

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway_service.adapters.sql.tables import key_months
from gateway_service.domain.keys.usage import month_of
from gateway_service.domain.traffic.record import CompletionRecord


async def add(connection: AsyncConnection, records: Sequence[CompletionRecord]) -> None:
    """Each record once. Sorted, so that two gateways do not wait for one another in a circle."""
    tokens: Counter[tuple[str, str]] = Counter()
    for record in records:
        if record.key_id:
            tokens[month_of(record.start_time), record.key_id] += record.prompt_tokens + record.completion_tokens
    if not tokens:
        return
    rows = [{"month": month, "key_id": key_id, "tokens": count} for (month, key_id), count in sorted(tokens.items())]
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    insertion = dialect.insert(key_months)
    grown = key_months.c.tokens + insertion.excluded.tokens
    await connection.execute(
        insertion.on_conflict_do_update(index_elements=list(key_months.primary_key), set_={"tokens": grown}), rows
    )
