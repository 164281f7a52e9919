"""The one table between what Redis answers and errors of ours (extra `redis`).

Whatever Redis refuses, it refuses for its own state and never for what a caller asked: all of it is Unavailable, is
tried again, and has the words for whoever runs Redis. A command that is not well formed (redis-py's DataError) is a
fault of our code, and passes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from redis.exceptions import DataError, RedisError, ResponseError

from ratchet_kit.errors import Unavailable
from ratchet_kit.text import clip

COMMAND_LIMIT = timedelta(seconds=30)
_TEXT_BYTES = 300

# By redis-py's class where it has one, else by what Redis says.
_STATES = {
    "OutOfMemoryError": "it is out of memory: raise its maxmemory, or see what fills it",
    "MISCONF": "it cannot save to its disk: free some space there",
    "ReadOnlyError": "it is a replica, which takes no writes: REDIS_URL must lead to the primary",
    "NOREPLICAS": "fewer replicas follow it than min-replicas-to-write asks for",
    "BusyLoadingError": "it is reading its data: it answers once that is done",
    "BUSY ": "a script keeps it busy",
    "MasterDownError": "it is a replica that has lost its primary",
    "ClusterDownError": "its cluster is down",
    "max number of clients": "it has as many clients as it takes: raise its maxclients",
    "AuthenticationError": "it asks for another password than REDIS_URL has",
    "NoPermissionError": "the user of REDIS_URL may not do this",
}


@asynccontextmanager
async def redis_errors() -> AsyncIterator[None]:
    """Around commands: raises Unavailable in place of what Redis answers, and when it has not answered in time."""
    try:
        async with asyncio.timeout(COMMAND_LIMIT.total_seconds()):
            yield
    except DataError:
        raise
    except RedisError as error:
        raise _unavailable(error) from error
    except TimeoutError as error:
        raise Unavailable(f"Redis has not answered for {COMMAND_LIMIT.total_seconds():g} s") from error


def _unavailable(error: RedisError) -> Unavailable:
    text = clip(" ".join(str(error).split()), _TEXT_BYTES)
    said = f"{type(error).__name__} {text}"
    state = next((state for sign, state in _STATES.items() if sign in said), "")
    if state:
        return Unavailable(f"Redis cannot be used now: {state} ({text})")
    if isinstance(error, ResponseError):
        return Unavailable(f"Redis refuses a command: {text}")
    return Unavailable(f"Redis cannot be reached: {text}")
