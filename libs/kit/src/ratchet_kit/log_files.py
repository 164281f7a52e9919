"""Files that processes write their output to for as long as they live: none grows without bound."""

import asyncio
import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path

from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.logs import get_logger
from ratchet_kit.work import every, surviving

log = get_logger(__name__)

MAX_BYTES = 64 << 20
"""Of a log, and of what came before: a file beside it with `EARLIER` at the end of its name."""
EARLIER = ".1"
LOOK = timedelta(seconds=10)
_CHUNK_BYTES = 1 << 20


async def bound(
    files: Callable[[], Iterable[Path]], stop: asyncio.Event, *, max_bytes: int = MAX_BYTES, look: timedelta = LOOK
) -> None:
    """Cuts each of the `files` that has become too long, until `stop` is set. One that cannot be cut holds up no
    other."""

    async def step() -> None:
        for file in await asyncio.to_thread(lambda: list(files())):
            with surviving("bound logs", file=str(file)), disk_errors(str(file)):
                if await asyncio.to_thread(cut, file, max_bytes):
                    log.info("log.cut", file=str(file))

    await every(look, stop, step, name="bound logs")


def cut(file: Path, max_bytes: int) -> bool:
    """Empties a log that is longer than that, and keeps the end of it beside it; whether it was. Who has it open to
    append goes on at its start; what is written at this very moment may be lost.

    Raises OSError. On a disk that is full it is emptied all the same.
    """
    try:
        size = file.stat().st_size
    except FileNotFoundError:
        return False
    if size <= max_bytes:
        return False
    earlier = file.with_name(file.name + EARLIER)
    try:
        with file.open("rb") as reading, earlier.open("wb") as writing:
            reading.seek(size - max_bytes)
            for start in range(0, max_bytes, _CHUNK_BYTES):
                writing.write(reading.read(min(_CHUNK_BYTES, max_bytes - start)))
    except OSError as error:
        log.warning("log.not_kept", file=str(file), reason=str(error))
    os.truncate(file, 0)
    return True
