"""The images of a node: those in a folder, each unpacked when it is first used, and shared by all workspaces."""

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from ratchet_kit import images
from ratchet_kit.errors import FailedPrecondition, ResourceExhausted, Unimplemented
from ratchet_kit.logs import get_logger
from sandbox_service.adapters.images import archive
from sandbox_service.adapters.images.archive import Given, Unreadable

log = get_logger(__name__)

_UNPACKED, _UNFINISHED = ".unpacked", "unfinished-"
_GROWTH = 3
"""An image's files on disk against its layers as they are given, compressed or not: as much room is made for one."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PATIENCE, _RETRY_AFTER = 10, timedelta(seconds=1)  # seconds of a call; it has a deadline
_HELP = "`docker save NAME >FILE.tar` on a machine that has it, and put the file into"


@dataclass(slots=True)
class Image:
    """Mutable: it is unpacked, and stays so until `release`. `held`: a descriptor of its lock."""

    folder: str
    environment: dict[str, str]
    workdir: str
    held: int

    def release(self) -> None:
        if self.held >= 0:
            os.close(self.held)
        self.held = -1


class Images:
    def __init__(self, folder: Path | None) -> None:
        """`folder`: holds a file or folder for each image. What it holds of them unpacked is this user's."""
        self._folder = folder.expanduser().absolute() if folder else None
        self._known: dict[Path, tuple[object, list[Given], str]] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        """By digest. One that failed stays until somebody has been told."""

    async def use(self, name: str) -> Image:
        """Raises Unimplemented for one that is not here, FailedPrecondition for one that can't be read,
        ResourceExhausted while it is unpacked for long, and where there is no room for its files."""
        given = await asyncio.to_thread(self._find, name)
        held = await asyncio.to_thread(self._hold, given)
        if held is None:
            await self._unpacked(given)
            held = await asyncio.to_thread(self._hold, given)
        if held is None:
            raise FailedPrecondition(f"image {name!r} was removed while it was unpacked")
        environment = {"PATH": _PATH, "HOME": "/root", **given.config.environment}
        root = f"{self._place(given)}/root"
        return Image(root, environment, given.config.workdir, held)

    async def stop(self) -> None:
        for task in (tasks := list(self._under_way.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _unpacked(self, given: Given) -> None:
        task = self._under_way.get(given.digest)
        if task is None:
            task = self._under_way[given.digest] = asyncio.create_task(self._unpack(given))
        try:
            await asyncio.wait_for(asyncio.shield(task), _PATIENCE)
        except TimeoutError as error:
            words = f"image {given.names[0]!r} is being unpacked, {given.size >> 20} MiB: try again"
            raise ResourceExhausted(words, retry_after=_RETRY_AFTER) from error
        finally:
            if task.done():
                self._under_way.pop(given.digest, None)

    def tidy(self) -> None:
        """Removes what is unpacked of images that are given no more, and of what never was whole."""
        if self._folder is None:
            return
        given = {self._place(one).name for one in self._all()[0]}
        for place in self._places():
            if place.name not in given:
                self._remove(place)

    def _find(self, name: str) -> Given:
        if self._folder is None:
            raise Unimplemented(
                f"image {name!r} is not on this node: it has none. Set RATCHET_SANDBOX_IMAGES to a folder of the node, "
                f"and give it the image: {_HELP} that folder"
            )
        try:
            wanted = images.normal(name)
        except ValueError as error:
            raise FailedPrecondition(str(error)) from error
        digest = wanted.rpartition("@")[2] if "@" in wanted else ""
        found, faults = self._all()
        for one in found:
            if (digest or wanted) in one.names:
                return one
        there = ", ".join(sorted(one.names[0] for one in found)) or "none"
        unread = "".join(f"; {fault}" for fault in faults)
        raise Unimplemented(
            f"image {name!r} is not on this node, which has {there}. Give it: {_HELP} RATCHET_SANDBOX_IMAGES{unread}"
        )

    def _all(self) -> tuple[list[Given], list[str]]:
        """With what is wrong with those that can't be read."""
        assert self._folder is not None
        seen: dict[Path, tuple[object, list[Given], str]] = {}
        for path in sorted(self._folder.glob("[!.]*")) if self._folder.is_dir() else ():
            with contextlib.suppress(OSError):
                state = _state(path)
                before = self._known.get(path)
                seen[path] = before if before and before[0] == state else (state, *_read(path))
        self._known = seen
        found = [given for _, some, _ in seen.values() for given in some]
        return found, [fault for _, _, fault in seen.values() if fault]

    @property
    def _below(self) -> Path:
        """The folder of all that is unpacked: in that of the images, or, where nothing can be written there, among what
        this user caches."""
        assert self._folder is not None
        own = self._folder / _UNPACKED
        if os.access(own if own.exists() else self._folder, os.W_OK):
            return own
        caches = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(caches):  # it is as if it were not set: the XDG specification
            caches = tempfile.gettempdir()
        name = hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:12]
        return Path(caches) / f"ratchet-images-{os.geteuid()}-{name}"

    def _place(self, given: Given) -> Path:
        return self._below / f"{os.geteuid()}-{given.digest.removeprefix('sha256:')}"

    def _places(self) -> list[Path]:
        """This user's, those that were used longest ago first."""
        found, below = [], self._below
        with contextlib.suppress(OSError):
            _require_own(below)
            for path in below.glob(f"{os.geteuid()}-*"):
                with contextlib.suppress(OSError):
                    found.append((path.stat().st_mtime, path))
        return [path for _, path in sorted(found)]

    def _hold(self, given: Given) -> int | None:
        """A descriptor that keeps it unpacked, if it is."""
        place = self._place(given)
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            _require_own(place.parent)
        except OSError as error:
            os.close(descriptor)
            raise _not_unpacked(place.parent, error) from error
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not place.exists() or not os.path.samestat(os.fstat(descriptor), place.stat()):
            os.close(descriptor)
            return None
        os.utime(descriptor)
        return descriptor

    async def _unpack(self, given: Given) -> None:
        place = self._place(given)
        try:
            await asyncio.to_thread(self._make_room, given)
            unfinished, descriptor = await asyncio.to_thread(_make_folder, place.parent)
        except OSError as error:
            raise _not_unpacked(place.parent, error) from error
        try:
            log.info("image.unpacking", image=given.names[0], bytes=given.size)
            await _run_unpacker(given, unfinished / "root")
            with contextlib.suppress(OSError):  # another service of this user was faster
                unfinished.rename(place)
            log.info("image.unpacked", image=given.names[0])
        finally:
            os.close(descriptor)
            await asyncio.to_thread(shutil.rmtree, unfinished, True)
            await asyncio.to_thread(self.tidy)

    def _make_room(self, given: Given) -> None:
        """By removing images that no workspace uses. Raises ResourceExhausted, OSError."""
        place = self._below
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        _require_own(place)
        needed = _GROWTH * given.size
        for one in self._places():
            if shutil.disk_usage(place).free > needed:
                return
            self._remove(one)
        if (free := shutil.disk_usage(place).free) <= needed:
            raise ResourceExhausted(
                f"image {given.names[0]!r} needs up to {needed >> 20} MiB of {place}, which has {free >> 20} MiB"
            )

    def _remove(self, place: Path) -> None:
        """Unless somebody holds it."""
        with contextlib.suppress(OSError):
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                gone = place.with_name(f"{os.geteuid()}-{_UNFINISHED}{os.getpid()}-{place.name[-12:]}-gone")
                place.rename(gone)
                shutil.rmtree(gone, ignore_errors=True)
            finally:
                os.close(descriptor)


def _require_own(below: Path) -> None:
    """Raises OSError for a folder that another user has put in place of this one's: what it holds is not trusted."""
    if below.name != _UNPACKED and (below.is_symlink() or below.stat().st_uid != os.geteuid()):
        raise PermissionError(errno.EPERM, "somebody else has made that folder", str(below))


def _not_unpacked(below: Path, error: OSError) -> FailedPrecondition:
    return FailedPrecondition(f"images can't be unpacked into {below}: {error.strerror}")


def _make_folder(below: Path) -> tuple[Path, int]:
    """A folder that no other service has, whatever machine or container it is in, and a descriptor of its lock."""
    made = Path(tempfile.mkdtemp(prefix=f"{os.geteuid()}-{_UNFINISHED}", dir=below))
    (made / "root").mkdir(mode=0o755)
    descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return made, descriptor


async def _run_unpacker(given: Given, folder: Path) -> None:
    """In a process of its own, which takes the time that it takes, and reads what a stranger made."""
    module = ("-m", "sandbox_service.adapters.images.unpack")
    arguments = (str(given.path), given.digest, str(folder))
    environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *module,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        _, words = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = words.decode("utf-8", "replace").strip()[-500:]
        raise FailedPrecondition(f"image {given.names[0]!r} ({given.path.name}) {said}")


def _state(path: Path) -> object:
    """Changes once the file has changed, or who may read it; of a folder, once its list has."""
    for one in (path, path / "manifest.json", path / "index.json"):
        if one.is_file():
            status = one.stat()
            return status.st_ctime_ns, status.st_size, status.st_ino
    return None


def _read(path: Path) -> tuple[list[Given], str]:
    try:
        return archive.read(path), ""
    except (Unreadable, OSError) as error:
        log.warning("image.unreadable", path=str(path), reason=str(error))
        return [], f"{path.name} {error}"
