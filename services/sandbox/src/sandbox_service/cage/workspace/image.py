"""The root that an image gives: its files, read-only, and above them a file system of what the workspace changes.

It lies beside the root of the cage's own processes, and these stay out of it: nothing of an image is ever their code.
A program's process goes in before it gives up its rights (ImageWorld.enter).
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox_service.cage.kernel import idmap, landlock, libc
from sandbox_service.cage.lane import root
from sandbox_service.cage.lane.world import OwnWorld

IMAGE, LOWER, _DISK = "/image", "/lower", "/disk"
UPPER = f"{_DISK}/upper"
_ENGINES = ("dev", "proc", "sys")
"""Folders of a root that are no image's: what is there is made for it."""
_FIRST = 5
"""Descriptors of every process of a workspace: the standard streams, the way out, the payload. Then come the rules,
and for a program the image's root."""


class Mounts:
    def __init__(self, folder: str, size: int, inodes: int, uid: int) -> None:
        """`folder`: the image's files, which the service's user owns. `size`: bytes of what may be written."""
        self._folder, self._size, self._inodes, self._uid = folder, size, inodes, uid

    def __call__(self, stage: str) -> None:
        """Raises OSError."""
        outside = os.geteuid() == 0  # before the namespaces: these files are root's, and the program another user
        owner = self._uid if outside else os.geteuid()
        for name in (IMAGE, LOWER, _DISK):
            os.mkdir(stage + name, 0o755)
        if outside:
            try:
                idmap.mount(self._folder, stage + LOWER, self._uid)
            except OSError as error:
                raise OSError(
                    f"the file system that images are unpacked on maps no users of mounts: {error}"
                ) from error
        else:
            root.bind(self._folder, stage + LOWER)
        options = f"size={self._size},nr_inodes={self._inodes},mode=755"
        libc.mount("tmpfs", stage + _DISK, "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, options)
        for name, mode in (("upper", 0o755), ("work", 0o700)):
            os.mkdir(f"{stage}{_DISK}/{name}", mode)
        os.chown(stage + UPPER, owner, owner)
        layers = f"lowerdir={stage}{LOWER},upperdir={stage}{UPPER},workdir={stage}{_DISK}/work"
        more = "" if outside else ",userxattr"
        libc.mount("overlay", stage + IMAGE, "overlay", libc.MS_NOSUID | libc.MS_NODEV, layers + more)
        libc.mount(f"{stage}/dev", f"{stage}{IMAGE}/dev", None, libc.MS_BIND | libc.MS_REC)
        # of the devices alone root's own have no flag that is locked
        flags = libc.MS_REMOUNT | libc.MS_BIND | libc.MS_RDONLY | libc.MS_NOSUID
        libc.mount("none", f"{stage}{IMAGE}/dev", None, flags)


class ImageWorld(OwnWorld):
    """Programs have the image for their root, and what moves files has it below IMAGE."""

    def __init__(self, rules: landlock.Rules | None, processes: bool, proc: int) -> None:
        super().__init__(rules, processes, proc)
        self.folder = IMAGE
        self._rights = landlock.rights() if rules else 0

    @contextmanager
    def before_programs(self) -> Iterator[None]:
        yield

    def resize(self, size: int, inodes: int) -> None:
        """It has its size from the beginning: Mounts."""

    def open(self, zygote: int) -> list[int]:
        return []

    def settle(self) -> None:
        super().settle()
        libc.mount(root.PROC, f"{IMAGE}{root.PROC}", None, libc.MS_BIND)

    def rules_anew(self, is_command: bool = True) -> list[int]:
        if is_command:
            return [self._rules_of_programs(), os.open(IMAGE, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
        everything = landlock.all_of(self._rights)
        return [
            landlock.ruleset(self._rights, [*self._read(*root.readable_paths(), LOWER, UPPER), (IMAGE, everything)])
        ]

    def _read(self, *paths: str) -> list[tuple[str, int]]:
        return [(path, landlock.reading_of(self._rights, path)) for path in paths]

    def _rules_of_programs(self) -> int:
        """All but /proc, of which a program opens nothing but what it holds. A folder's rights hold for all below it:
        those of the root itself are to make and remove what lies there, and what lies there has its own."""
        found = [*self._read(*root.DEVICES), (IMAGE, landlock.making_of(self._rights))]
        for entry in os.scandir(IMAGE):
            if entry.name not in _ENGINES and not entry.is_symlink():
                rights = landlock.all_of(self._rights, entry.is_dir(follow_symlinks=False))
                found.append((entry.path, rights))
        return landlock.ruleset(self._rights, found)

    def enter(self, places: int) -> int:
        os.chdir(IMAGE)
        if places > _FIRST + 1:
            os.fchdir(_FIRST + 1)
            libc.chroot(".")
            sys.meta_path.clear()  # what is imported from here on would be the image's
        self._drop()
        landlock.restrict(_FIRST)
        return _FIRST
