"""From protobuf, without holding up others: what is large is read in a thread, long test code in another process."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sandbox_service.domain import test_code
from sandbox_service.domain.ports import Aside, Overrun

_LARGE = 1 << 18  # bytes
_T = TypeVar("_T")


class Unpacker:
    def __init__(self, aside: Aside) -> None:
        self._aside = aside

    async def __call__(self, size: int, convert: Callable[..., _T], *arguments: object) -> _T:
        """What `convert` makes of a request of so many bytes. Raises what it raises, but Unread; Unavailable."""
        while True:
            try:
                if size <= _LARGE:
                    return convert(*arguments)
                return await asyncio.to_thread(convert, *arguments)  # literals take about a second for each MB
            except test_code.Unread as error:
                await asyncio.gather(*map(self._read, dict.fromkeys(error.texts)))

    async def _read(self, text: test_code.Text) -> None:
        try:
            found = await self._aside(test_code.read_whole, text)
        except Overrun:
            found = "takes too long to read, or too much memory"
        test_code.keep(text, found)
