"""Use cases of workspaces: create, exec, files, renew, list, delete. Each caller has its own, and sees no other.

They live in this process and end with it: nothing of them is stored.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from ratchet_kit import work
from ratchet_kit.errors import FailedPrecondition, NotFound, ResourceExhausted, invalid
from ratchet_kit.idempotency import Made, Request
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from sandbox_service.domain.ports import Cage, CageLost, Cages
from sandbox_service.domain.workspace import (
    Command,
    Exit,
    Output,
    Relayed,
    Usage,
    Workspace,
    WorkspaceSpec,
    no_workspace,
)

log = get_logger(__name__)

MOST = 190
"""Workspaces of a node: each has a user id of its own at L3 (adapters/lanes/uids.py)."""
_SWEEP = timedelta(seconds=0.5)
_RETRY_AFTER = timedelta(seconds=1)
"""Until somebody who needs room looks again: most workspaces end long before their lease."""


@dataclass(eq=False, slots=True)
class _Live:
    """Mutable: its lease and its usage change. `gate`: one exec, write or read at a time."""

    workspace: Workspace
    cage: Cage
    gate: asyncio.Lock


class Workspaces:
    def __init__(self, cages: Cages, clock: Clock, most_bytes: int) -> None:
        """`most_bytes`: memory and disk of all workspaces together."""
        self._cages, self._clock, self._most_bytes = cages, clock, most_bytes
        self._live: dict[str, _Live] = {}
        self._made: Made[str] = Made("workspace")
        self._under_way: dict[str, asyncio.Task[Workspace]] = {}
        self._taken_bytes = self._taken = 0

    async def create(
        self, spec: WorkspaceSpec, lease: timedelta, caller: str = "", request_id: str = "", copy_of: str = ""
    ) -> Workspace:
        """With the files of the workspace `copy_of`, if there is one.

        Raises ResourceExhausted at the node's bound, or where these files don't fit, FailedPrecondition below the least
        level, Unimplemented for a runtime that isn't here, NotFound for `copy_of`, AlreadyExists, Unavailable.
        """
        request = Request.of(request_id, spec, lease, copy_of, owner=caller)
        before = self._made.find(request) or ""
        if before in self._under_way:
            return await asyncio.shield(self._under_way[before])
        with suppress(NotFound):
            return self._get(before, caller).workspace
        id = new_id("ws")
        self._made.add(request, id)
        making = self._under_way[id] = asyncio.create_task(self._make(id, spec, lease, caller, copy_of))
        making.add_done_callback(partial(self._has_made, id))
        # whoever gives up waiting may ask again; if nobody does, its lease ends it
        return await asyncio.shield(making)

    def _has_made(self, id: str, making: "asyncio.Task[Workspace]") -> None:
        del self._under_way[id]
        if making.cancelled() or making.exception():
            self._made.remove({id})

    async def _make(self, id: str, spec: WorkspaceSpec, lease: timedelta, caller: str, copy_of: str) -> Workspace:
        source = self._get(copy_of, caller) if copy_of else None
        self._take(spec)
        cage, usage = None, Usage()
        try:
            cage = await self._cages.make(spec)
            if source:
                async with self._turn(source), aclosing(source.cage.read(["."], changed=True)) as chunks:
                    usage = await cage.write("", chunks)
        except BaseException:
            if cage:
                await cage.stop()
            self._give_back(spec)
            raise
        now = self._clock.now()
        made = Workspace(id, caller, spec, now, now, cage.level, tuple(cage.layers), usage).renew(now, lease)
        self._live[id] = _Live(made, cage, asyncio.Lock())
        log.info("workspace.created", workspace_id=id, isolation=str(cage.level), runtime=spec.runtime)
        return made

    def _take(self, spec: WorkspaceSpec) -> None:
        if not self._most_bytes:
            raise FailedPrecondition("this node has no workspaces: RATCHET_SANDBOX_WORKSPACE_BYTES is 0")
        if spec.limits.bytes > self._most_bytes:
            whole = f"{self._most_bytes >> 20} MiB of memory and disk that this node has for all"
            raise invalid("limits", f"may not be more than the {whole}")
        if self._taken >= MOST or self._taken_bytes + spec.limits.bytes > self._most_bytes:
            raise ResourceExhausted(
                f"this node's {self._taken} workspaces hold {self._taken_bytes >> 20} of {self._most_bytes >> 20} MiB "
                f"(at most {MOST}): no room for {spec.limits.bytes >> 20} MiB more",
                retry_after=_RETRY_AFTER,
            )
        self._taken += 1
        self._taken_bytes += spec.limits.bytes

    def _give_back(self, spec: WorkspaceSpec) -> None:
        self._taken -= 1
        self._taken_bytes -= spec.limits.bytes

    def _get(self, id: str, caller: str) -> _Live:
        """Raises NotFound, also from the moment on at which its lease is over."""
        live = self._live.get(id)
        if live is None or live.workspace.expire_time <= self._clock.now():
            raise no_workspace(id)
        live.workspace.seen_by(caller)
        return live

    async def get(self, id: str, caller: str = "") -> Workspace:
        """Raises NotFound."""
        return self._get(id, caller).workspace

    async def renew(self, id: str, lease: timedelta, caller: str = "") -> Workspace:
        """Raises NotFound."""
        live = self._get(id, caller)
        live.workspace = live.workspace.renew(self._clock.now(), lease)
        return live.workspace

    async def page(self, page_size: int, page_token: str, caller: str = "") -> Page[Workspace]:
        """The caller's, newest first. Raises InvalidArgument."""
        return await fetch_page(partial(self._fetch, caller), lambda one: one.id, str, page_size, page_token)

    async def _fetch(self, caller: str, limit: int, after: str | None) -> Sequence[Workspace]:
        now = self._clock.now()
        own = [one.workspace for one in self._live.values() if one.workspace.caller == caller]
        own = sorted((one for one in own if one.expire_time > now), key=lambda one: one.id, reverse=True)
        return [one for one in own if after is None or one.id < after][:limit]

    async def delete(self, id: str, caller: str = "") -> None:
        """With all its processes and files; what runs ends. Raises NotFound."""
        self._get(id, caller)
        await self._end(id, "deleted")

    async def exec(
        self, id: str, command: Command, given: AsyncIterator[bytes | Relayed], caller: str = ""
    ) -> AsyncGenerator[Output | Relayed | Exit]:
        """Its output as it comes, and last its end. One after the other: another exec, read or write waits.

        Closed or cancelled, it kills what it started. Raises NotFound, also when the workspace ends meanwhile,
        FailedPrecondition where there can be no relay.
        """
        async with self._turn(self._get(id, caller)) as live, aclosing(live.cage.run(command, given)) as events:
            async for event in events:
                if isinstance(event, Exit):
                    live.workspace = replace(live.workspace, usage=event.usage)
                yield event

    async def write(self, id: str, folder: str, archive: AsyncIterator[bytes], caller: str = "") -> Usage:
        """Unpacks a tar. Raises NotFound, InvalidArgument for one that can't be, ResourceExhausted for a full disk."""
        async with self._turn(self._get(id, caller)) as live:
            usage = await live.cage.write(folder, archive)
            live.workspace = replace(live.workspace, usage=usage)
            return usage

    async def read(
        self, id: str, names: Sequence[str], caller: str = "", changed: bool = False
    ) -> AsyncGenerator[bytes]:
        """A tar of what has these names. `changed`: of what differs from its image.

        Raises NotFound, InvalidArgument."""
        async with self._turn(self._get(id, caller)) as live, aclosing(live.cage.read(names, changed)) as chunks:
            async for chunk in chunks:
                yield chunk

    @asynccontextmanager
    async def _turn(self, live: _Live) -> AsyncIterator[_Live]:
        """Raises NotFound where the workspace ends before its turn, or within it."""
        id = live.workspace.id
        async with live.gate:
            if id not in self._live:
                raise no_workspace(id)
            try:
                yield live
            except CageLost as error:
                if self._live.get(id) is not live:
                    raise no_workspace(id) from error
                await self._end(id, str(error))
                raise no_workspace(id, f"it was lost: {error}") from error

    async def _end(self, id: str, reason: str) -> None:
        live = self._live.pop(id, None)
        if live is None:
            return
        self._made.remove({id})
        try:
            await asyncio.shield(live.cage.stop())
        finally:
            self._give_back(live.workspace.spec)
        log.info("workspace.ended", workspace_id=id, reason=reason)

    async def sweep(self) -> None:
        """Ends those whose lease is over, and those whose processes are gone."""
        now = self._clock.now()
        over = [id for id, live in self._live.items() if live.workspace.expire_time <= now]
        lost = [id for id, live in self._live.items() if not live.gate.locked() and not live.cage.is_up]
        reasons = dict.fromkeys(lost, "lost") | dict.fromkeys(over, "lease")
        await asyncio.gather(*(self._end(id, reason) for id, reason in reasons.items()))

    async def run(self, stop: asyncio.Event) -> None:
        """Background: ends what is over, at the latest half a second later."""
        await work.every(_SWEEP, stop, self.sweep, name="workspaces")
