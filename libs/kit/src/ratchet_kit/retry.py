"""Patience with a part of the platform that does not answer: retry with backoff, up to a limit."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from ratchet_kit.errors import (
    Aborted,
    Cancelled,
    DeadlineExceeded,
    Internal,
    RatchetError,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from ratchet_kit.logs import get_logger

T = TypeVar("T")

# What the platform may recover from by itself.
TRANSIENT: tuple[type[RatchetError], ...] = (Unavailable, ResourceExhausted, DeadlineExceeded, Aborted)

# What says nothing of the thing that was asked for: the platform's faults, those of its code and settings among them.
# Long work waits for these to be mended, and does not fail for them.
OUTSIDE: tuple[type[RatchetError], ...] = (*TRANSIENT, Internal, Cancelled, Unauthenticated)

FIRST_WAIT = timedelta(milliseconds=200)
LONGEST_WAIT = timedelta(seconds=10)

log = get_logger(__name__)


async def patiently(
    call: Callable[[], Awaitable[T]],
    patience: timedelta,
    what: str,
    errors: tuple[type[RatchetError], ...] = TRANSIENT,
) -> T:
    """The result of `call`, tried again after each of the `errors` until `patience` is over; then it is raised.

    Waits grow by doubling from FIRST_WAIT to LONGEST_WAIT, each shortened at random by up to half so that many
    callers do not return at once.
    """
    end = time.monotonic() + patience.total_seconds()
    wait = FIRST_WAIT.total_seconds()
    while True:
        try:
            return await call()
        except errors as error:
            pause = wait * random.uniform(0.5, 1.0)
            if time.monotonic() + pause > end:
                raise
            log.warning("call.retried", what=what, reason=error.message, wait_s=round(pause, 2))
        await asyncio.sleep(pause)
        wait = min(2 * wait, LONGEST_WAIT.total_seconds())
