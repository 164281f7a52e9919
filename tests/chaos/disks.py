"""A small disk, that is filled and freed."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_STEP = 1 << 20


@dataclass(frozen=True, slots=True)
class Disk:
    folder: Path

    def fill(self, leave_bytes: int = 0) -> None:
        """With a file of its own, until no byte more can be written, or only so many."""
        with self._file.open("wb", buffering=0) as file:
            try:
                while not leave_bytes or self.free_bytes > leave_bytes:
                    file.write(bytes(_STEP))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def free(self) -> None:
        self._file.unlink()

    @property
    def free_bytes(self) -> int:
        status = os.statvfs(self.folder)
        return status.f_bavail * status.f_frsize

    @property
    def _file(self) -> Path:
        return self.folder / "filler"


@contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[Disk]:
    """Mounted there, in memory. Skips where this process may not mount."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "ratchet-test", str(folder)]
    if (mounted := subprocess.run(command, capture_output=True, text=True)).returncode:
        pytest.skip(f"a disk of its own needs the right to mount: {mounted.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
