"""The models that requests name, in memory, so that a request asks no registry for a champion or an alias."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

from gateway_service.domain.ports import ModelRegistry, RegisteredModel
from ratchet_kit.errors import NotFound, RatchetError
from ratchet_kit.times import Clock

KEEP = timedelta(minutes=10)
"""A model that nobody has named for this long is not read again."""
PATIENCE = timedelta(milliseconds=300)
"""How long a `refresh` waits for a registry that does not answer. It goes on answering for what it has answered."""


@dataclass(slots=True)  # mutable: it is read again and again
class _Known:
    model: RegisteredModel
    used_time: datetime


class KnownModels:
    """The models that were named lately, as they were at the last `refresh`."""

    def __init__(self, registry: ModelRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}

    async def find(self, name: str) -> RegisteredModel:
        """From memory. The first time, and as `read`, from the registry."""
        return self.known(name) or await self.read(name)

    def known(self, name: str) -> RegisteredModel | None:
        """From memory alone."""
        known = self._known.get(name)
        if known is None:
            return None
        known.used_time = self._clock.now()
        return known.model

    async def read(self, name: str) -> RegisteredModel:
        """From the registry: for what memory lacks. Raises NotFound, Unavailable."""
        model = await self._registry.model(name)
        self._known[name] = _Known(model, self._clock.now())
        return model

    async def refresh(self) -> None:
        """Reads all again. Those that cannot be read now stay as they are; those that are gone are forgotten."""
        now = self._clock.now()
        self._known = {name: known for name, known in self._known.items() if now - known.used_time < KEEP}
        for name in self._known.keys() - self._reading.keys():
            self._reading[name] = asyncio.create_task(self._read_again(name), name=f"read {name}")
        if self._reading:
            await asyncio.wait(self._reading.values(), timeout=PATIENCE.total_seconds())

    async def close(self) -> None:
        """Ends what is being read."""
        tasks = list(self._reading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read_again(self, name: str) -> None:
        try:
            model = await self._registry.model(name)
            if name in self._known:
                self._known[name].model = model
        except NotFound:
            self._known.pop(name, None)
        except RatchetError:
            pass  # it is away: what was loaded goes on answering
        finally:
            del self._reading[name]
