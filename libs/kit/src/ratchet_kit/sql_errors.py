"""The one table between what a database raises and errors of ours (extra `sql`).

transient   away, restarted, busy, locked, a deadlock, out of connections, disk full, read-only after a failover
            -> Unavailable, with what it said: tried again
the value's too long, out of range, a NUL in a text -> InvalidArgument: the caller's, or one record's, to set aside
the file's  damaged -> DataLoss
the time's  what a row belongs to was deleted, or got a row, at that moment -> Aborted: read again, then decide
The rest (a table that is missing, a key that is taken) stays SQLAlchemy's error: a fault of our code.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from sqlalchemy import exc

from ratchet_kit.errors import Aborted, DataLoss, InvalidArgument, RatchetError, Unavailable
from ratchet_kit.text import clip

TRANSACTION_LIMIT = timedelta(seconds=60)
"""For a transaction, with the wait for a connection."""
_TEXT_BYTES = 300
_FULL = "no space is left on its disk: free some there"
_READ_ONLY = "it takes no writes: DATABASE_URL must lead to the primary, and its disk must not be mounted read-only"

# https://www.postgresql.org/docs/current/errcodes-appendix.html. By class (two letters), and one by one where a class
# holds others. psycopg sorts some of them below errors that are for good.
_TRANSIENT_CLASSES = frozenset({"08", "40", "53", "55", "57", "58"})
_TRANSIENT_STATES = {
    "25006": _READ_ONLY,
    "25P02": "the transaction had failed already",
    "25P03": "the transaction was left open for too long",
    "25P04": "the transaction took too long",
    "28P01": "it asks for another password than DATABASE_URL has",
    "53100": _FULL,
    "53300": "it has as many connections as it takes: raise its max_connections",
}
_FOREIGN_KEY_STATE = "23503"
_DAMAGED_STATES = frozenset({"XX001", "XX002"})

# https://www.sqlite.org/rescode.html
_TRANSIENT_CODES = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
}
_DAMAGED_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


@asynccontextmanager
async def sql_errors(limit: timedelta | None = None) -> AsyncIterator[None]:
    """Around a transaction: raises an error of ours in place of the database's, and Unavailable after `limit`
    (TRANSACTION_LIMIT where none is given)."""
    try:
        async with asyncio.timeout((limit or TRANSACTION_LIMIT).total_seconds()) as timeout:
            yield
    except TimeoutError as error:
        if not timeout.expired():
            raise
        raise Unavailable("the database cannot be used now: it has not answered in time") from error
    except exc.TimeoutError as error:
        raise Unavailable("the database is busy: no connection to it became free in time") from error
    except exc.DisconnectionError as error:
        raise Unavailable("the connection to the database broke") from error
    except (OverflowError, UnicodeEncodeError) as error:  # by drivers: more than 64 bits, half of a surrogate pair
        raise InvalidArgument(f"the database does not accept this value: {error}") from error
    except exc.DBAPIError as error:
        meant = _meant(error)
        if meant is None:
            raise
        raise meant from error


def _meant(error: exc.DBAPIError) -> RatchetError | None:
    """None for what stays as it is."""
    said = clip(" ".join(str(error.orig).split()), _TEXT_BYTES)
    state = getattr(error.orig, "sqlstate", None) or ""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if state in _DAMAGED_STATES or (code is not None and code & 0xFF in _DAMAGED_CODES):
        return DataLoss(f"the database is damaged: {said}")
    if state == _FOREIGN_KEY_STATE or code == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
        return Aborted(f"what this belongs to was changed by someone else at the same time: {said}")
    if _may_pass(error, state):
        advice = _TRANSIENT_STATES.get(state) or _TRANSIENT_CODES.get(code & 0xFF if code is not None else -1)
        return Unavailable(f"the database cannot be used now: {f'{advice} ({said})' if advice else said}")
    if isinstance(error, exc.DataError):
        return InvalidArgument(f"the database does not accept this value: {said}")
    return None


def _may_pass(error: exc.DBAPIError, state: str) -> bool:
    if error.connection_invalidated or state[:2] in _TRANSIENT_CLASSES or state in _TRANSIENT_STATES:
        return True
    if isinstance(error.orig, sqlite3.Error):
        # SQLite calls a missing table an operational error, too: its plain SQLITE_ERROR.
        code = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_BUSY) & 0xFF
        return isinstance(error.orig, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR
    return isinstance(error, exc.OperationalError | exc.InterfaceError)
