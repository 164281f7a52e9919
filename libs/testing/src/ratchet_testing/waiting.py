"""Waiting for what other tasks, threads and processes do."""

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], object], seconds: float = 30) -> None:
    """Returns once it holds. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.002)
