"""The real maker of cages that last."""

import asyncio
import os
import socket
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from ratchet_kit import images
from ratchet_kit.errors import FailedPrecondition, RatchetError, Unavailable, Unimplemented
from ratchet_kit.logs import get_logger
from sandbox_service.adapters.images.store import Image, Images
from sandbox_service.adapters.lanes import cgroups, cleanup, protocol
from sandbox_service.adapters.lanes.options import LaneOptions
from sandbox_service.adapters.lanes.uids import BLOCK, Uids
from sandbox_service.adapters.languages import environments
from sandbox_service.adapters.languages.commands import ENVIRONMENT
from sandbox_service.adapters.languages.toolchains import Toolchains
from sandbox_service.adapters.workspaces.cage import Place, WorkspaceCage, disk_of, remove_stage
from sandbox_service.adapters.workspaces.nursery import Nursery
from sandbox_service.domain import levels
from sandbox_service.domain.levels import Level
from sandbox_service.domain.workspace import WorkspaceSpec
from sandbox_service.domain.workspaces import MOST

log = get_logger(__name__)

_STANDARD = "python"
_CALM = 0.5  # seconds


class WorkspaceCages:
    """`async with WorkspaceCages(options, ceiling) as cages`: all that it made is gone after."""

    def __init__(self, options: LaneOptions, ceiling: Callable[[], Level] = lambda: Level.L3) -> None:
        """`ceiling`: the level that the attacks at the start of the lanes left."""
        self._options, self._ceiling = options, ceiling
        found = [environments.standard(options.python), *environments.find(options.runtimes_dir)]
        self._environments = {environment.runtime.name: environment for environment in found}
        self._toolchains, self._images = Toolchains(), Images(options.images)
        self._home = cgroups.find_or_reason()
        self._uids: Uids | None = None
        self._free_uids: list[int] = []
        self._nurseries: dict[str, Nursery] = {}
        self._starting = asyncio.Lock()
        self._made: set[WorkspaceCage] = set()
        self._spares: defaultdict[str, list[WorkspaceCage]] = defaultdict(list)
        self._wanted = 0
        self._last = 0.0
        self._refilling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if os.geteuid() == 0:
            self._uids = Uids(self._options.job_uid)
            self._free_uids = list(range(self._uids.first, self._uids.first + BLOCK))
        else:
            self._free_uids = [os.geteuid()] * BLOCK
        for stage in cleanup.abandoned(Path(tempfile.gettempdir())):
            await asyncio.to_thread(remove_stage, stage)
            log.info("workspace.folder_removed", folder=stage)
        await asyncio.to_thread(self._images.tidy)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._refilling is not None:
            self._refilling.cancel()
            await asyncio.gather(self._refilling, return_exceptions=True)
        await asyncio.gather(*(cage.stop() for cage in list(self._made)))
        await asyncio.gather(*(nursery.stop() for nursery in self._nurseries.values()))
        await self._toolchains.stop()
        await self._images.stop()
        if self._uids:
            self._uids.release()

    @property
    def waiting(self) -> int:
        """Keepers that wait for a workspace."""
        return sum(cage.is_up for spares in self._spares.values() for cage in spares)

    async def make(self, spec: WorkspaceSpec) -> WorkspaceCage:
        if images.is_image(spec.runtime):
            return await self._opened(await self._of_image(spec), spec)
        runtime, spares = spec.runtime, self._spares[spec.runtime]
        await self._drop_lost(spares)
        cage = await self._opened(spares.pop() if spares else await self._forked(runtime), spec)
        self._last = asyncio.get_running_loop().time()
        self._wanted = max(self._wanted, len(self._made) - self.waiting)
        if self._refilling is None or self._refilling.done():
            self._refilling = asyncio.create_task(self._refill(runtime))
        return cage

    async def _of_image(self, spec: WorkspaceSpec) -> WorkspaceCage:
        """None of these waits in advance: its root is made for one image and one size of disk."""
        if reason := (await self._nursery(_STANDARD)).refused:
            raise FailedPrecondition(f"images need namespaces (L2 or L3), which this node lacks: {reason}")
        image = await self._images.use(spec.runtime)
        try:
            return await self._forked(_STANDARD, image, spec)
        except BaseException:
            image.release()
            raise

    @staticmethod
    async def _opened(cage: WorkspaceCage, spec: WorkspaceSpec) -> WorkspaceCage:
        try:
            async with asyncio.timeout(protocol.START_LIMIT):
                await cage.open(spec)
        except BaseException as error:
            await cage.stop()
            if isinstance(error, (OSError, EOFError, TimeoutError)):
                raise Unavailable(f"a workspace did not start: {error!r}") from error
            raise
        return cage

    async def _refill(self, runtime: str) -> None:
        """Keepers that wait for a workspace: as many as lived at a time, one forked after the other."""
        clock = asyncio.get_running_loop().time
        with suppress(RatchetError):
            while self.waiting < min(self._wanted, BLOCK - MOST):
                if await self._drop_lost(self._spares[runtime]):
                    return  # something ends them: no more of them until a workspace is asked for
                if (left := self._last + _CALM - clock()) > 0:
                    await asyncio.sleep(left)  # whoever waits for a workspace comes first
                else:
                    self._spares[runtime].append(await self._forked(runtime))

    @staticmethod
    async def _drop_lost(spares: list[WorkspaceCage]) -> bool:
        """True if some of them have ended."""
        lost = [cage for cage in spares if not cage.is_up]
        for cage in lost:
            spares.remove(cage)
        await asyncio.gather(*(cage.stop() for cage in lost))
        return bool(lost)

    async def _forked(
        self, runtime: str, image: Image | None = None, spec: WorkspaceSpec | None = None
    ) -> WorkspaceCage:
        """A keeper in its walls, that waits for its workspace. `image`: the root of this one, which `spec` bounds."""
        await self._nursery(runtime)  # before anything is taken that it would have to give back
        uid = self._free_uids.pop()
        stage = tempfile.mkdtemp(prefix=f"{cleanup.STAGE_PREFIX}{os.getpid()}-")
        group, no_cgroup = self._cgroup()
        cage: WorkspaceCage | None = None
        python = self._environments[runtime].python
        environment = {**ENVIRONMENT, "PATH": f"{os.path.dirname(python)}:{ENVIRONMENT['PATH']}:/names"}
        own = (image.folder, *disk_of(spec.limits)) if image and spec else None

        def release() -> None:
            self._free_uids.append(uid)
            if image:
                image.release()
            if cage:
                self._made.discard(cage)

        place = Place(stage, group, image.environment if image else environment, release, image)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            with theirs:
                pid = await self._fork(runtime, theirs, group.cpu_usage if group else -1)
            cage = WorkspaceCage(place, pid, ours)
            self._made.add(cage)
            if group:
                await asyncio.to_thread(group.enter, pid)
            async with asyncio.timeout(protocol.START_LIMIT):
                hello = await cage.set_up({"stage": stage, "uid": uid, "cgroup": group is not None, "image": own})
            self._settle(cage, hello, no_cgroup)
        except BaseException as error:
            await self._give_up(cage, place)
            ours.close()
            if isinstance(error, (OSError, EOFError, TimeoutError)):
                raise Unavailable(f"a workspace did not start: {error!r}") from error
            raise
        if "private-root" in cage.layers:
            os.rmdir(stage)  # built upon, and nowhere mounted since: a killed service leaves no folder
        return cage

    async def _give_up(self, cage: WorkspaceCage | None, place: Place) -> None:
        if cage is not None:
            await cage.stop()
            return
        if place.cgroup is not None:
            await asyncio.to_thread(place.cgroup.remove)
        with suppress(OSError):
            os.rmdir(place.stage)
        place.release()

    def _settle(self, cage: WorkspaceCage, hello: dict[str, object], no_cgroup: str) -> None:
        """Raises FailedPrecondition below the least level."""
        layers = hello["layers"]
        assert isinstance(layers, Sequence)
        cage.layers = (*(str(layer) for layer in layers), *(() if no_cgroup else ("cgroup",)))
        cage.level = min(levels.level_of(cage.layers), self._ceiling())
        least = self._options.min_level
        if cage.level < least:
            refused = dict.fromkeys((*levels.NAMESPACES, "private-root"), str(hello["refused"]))
            refused |= {"cgroup": no_cgroup} if no_cgroup else {}
            lacks = "; ".join(str(lack) for lack in levels.lacks(cage.layers, refused, least))
            raise FailedPrecondition(f"workspaces would be below {least}, the least that is allowed here: {lacks}")

    def _cgroup(self) -> tuple[cgroups.LaneCgroup | None, str]:
        """With the reason for having no cgroup."""
        if isinstance(self._home, cgroups.NoCgroup):
            return None, str(self._home)
        try:
            return self._home.make(), ""
        except cgroups.NoCgroup as error:
            return None, str(error)

    async def _fork(self, runtime: str, connection: socket.socket, cpu_usage: int) -> int:
        """By another nursery where the one that was up has ended meanwhile. Raises Unavailable."""
        nursery = await self._nursery(runtime)
        try:
            return await nursery.fork(connection, cpu_usage)
        except Unavailable:
            if nursery.is_up:
                raise
        return await (await self._nursery(runtime)).fork(connection, cpu_usage)

    async def _nursery(self, runtime: str) -> Nursery:
        """Raises Unimplemented, Unavailable."""
        environment = self._environments.get(runtime)
        if environment is None:
            there = ", ".join(self._environments)
            raise Unimplemented(f"runtime {runtime!r} is not on this node; it has {there}")
        async with self._starting:
            nursery = self._nurseries.get(runtime)
            if nursery is None or not nursery.is_up:
                if nursery is not None:
                    await nursery.stop()
                await self._toolchains.ready()
                nursery = Nursery(environment, (*self._toolchains.paths, environment.python), self._free_uids[-1])
                await nursery.start()
                self._nurseries[runtime] = nursery
            return nursery
