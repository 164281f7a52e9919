"""Transactions, with what the driver raises turned into our errors."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from ratchet_kit.errors import Unavailable


class Database:
    """Both raise Unavailable when the database cannot be reached or is locked for too long."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._reader = engine.execution_options(read_only=True)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """One transaction, committed at the end."""
        with database_errors():
            async with self._engine.begin() as connection:
                yield connection

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        with database_errors():
            async with self._reader.connect() as connection:
                yield connection


@contextmanager
def database_errors() -> Iterator[None]:
    """Raises Unavailable in place of what the driver raises when the database cannot be reached."""
    try:
        yield
    except OperationalError as error:
        raise Unavailable("the database cannot be reached") from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise Unavailable("the connection to the database broke") from error
        raise
