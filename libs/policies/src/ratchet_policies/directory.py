"""The rollout nodes that there are: found from a few addresses, and looked at once a second, each by itself."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from ratchet_kit import metrics
from ratchet_kit.errors import Cancelled, DeadlineExceeded, RatchetError, Unauthenticated, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.work import surviving
from ratchet_policies.member import Member, NodeEngine

log = get_logger(__name__)

INTERVAL = 1.0
AGAIN = 0.25
"""Seconds between two looks at a node that answers, and at one that did not and is not away yet."""
AT_LEAST = 0.05
"""Seconds between two looks where a request failed meanwhile."""
FORGET = 60.0
"""Seconds after which a node that is away is forgotten, unless it is a seed."""
FIRST_LOOK = 3.0
DROP = 5.0
"""Seconds that a node which is back has for unloading what was unloaded without it, before it is looked at again."""

SILENT = (Unavailable, DeadlineExceeded, Cancelled, Unauthenticated)
"""Errors that are no answer of a node."""

_nodes = metrics.gauge("rollout_nodes", "Rollout nodes that this process knows, by whether they answer", ("state",))


class Directory:
    """`seeds`: addresses to begin with; others are learnt from those that answer. `own`: of the node that this process
    is itself, if it is one. A context manager: it is filled at its start, and closes what it opened at its end."""

    def __init__(self, seeds: Sequence[str], connect: Callable[[str], NodeEngine], own: str = "") -> None:
        self._seeds = frozenset(seeds)
        self._connect = connect
        self._own = own
        self._members: dict[str, Member] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        for seed in sorted(self._seeds):
            self.learn(seed)
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LOOK):
                while new := [member for member in self._members.values() if not member.looked.is_set()]:
                    await asyncio.gather(*(member.looked.wait() for member in new))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def members(self) -> list[Member]:
        """By address. One that is known by two is here once."""
        return [member for _, member in sorted(self._members.items()) if not self._is_double(member)]

    @property
    def answering(self) -> list[str]:
        """Addresses of those that answer."""
        return [member.address for member in self.members if member.is_up]

    def learn(self, address: str) -> None:
        if address and address != self._own and address not in self._members:
            self._members[address] = Member(address, self._connect(address))
            self._tasks[address] = asyncio.create_task(self._watch(self._members[address]), name=f"node {address}")

    def _is_double(self, member: Member) -> bool:
        if not member.alias_of:
            return False
        other = self._members.get(member.alias_of)
        return member.alias_of == self._own or (other is not None and other.is_up)

    async def _watch(self, member: Member) -> None:
        try:
            while member.address in self._seeds or time.monotonic() - member.heard < FORGET:
                member.look.clear()
                with surviving("look at node", address=member.address):
                    await self._look_at(member)
                if member.strikes and member.is_up:
                    await asyncio.sleep(AGAIN)
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(INTERVAL):
                        await member.look.wait()
                        await asyncio.sleep(AT_LEAST)
            log.info("node.forgotten", address=member.address)
        finally:
            self._members.pop(member.address, None)
            self._tasks.pop(member.address, None)
            await member.engine.close()

    async def _look_at(self, member: Member) -> None:
        was_up = member.is_up
        try:
            report = await member.engine.report(self._own)
        except SILENT as error:
            member.struck(error)
        except RatchetError:  # it is there, and knows nothing of nodes
            member.answered(None)
        else:
            member.answered(report)
            for address in (report.node.address, *report.peers):
                self.learn(address)
        if was_up and not member.is_up:
            log.warning("node.away", address=member.address, reason=member.node.detail)
            if any(other.is_up and other.takes_new for other in self.members):
                member.abandon()
        elif member.is_up and not was_up:
            log.info("node.found", address=member.address)
        self._count()
        if member.is_up and member.unwanted:
            async with asyncio.timeout(DROP):
                await member.drop_unwanted()

    def _count(self) -> None:
        up = len(self.answering)
        _nodes.labels("up").set(up)
        _nodes.labels("away").set(len(self.members) - up)
