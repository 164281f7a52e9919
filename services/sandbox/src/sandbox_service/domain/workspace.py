"""A workspace: a cage with a folder that lasts an episode. Plain data.

LIVE ── lease or wall time over, deleted, or its processes lost ──> gone: nothing of it is kept
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from ratchet_kit.errors import NotFound
from sandbox_service.domain.levels import Level


@dataclass(frozen=True, slots=True)
class WorkspaceLimits:
    """Bounds of all processes and files of a workspace, from its start to its end."""

    cpu_time: timedelta = timedelta(minutes=10)
    memory_bytes: int = 512 << 20
    """All its processes together. Where files are in memory (L2, L3) they have their own bound beside it."""
    processes: int = 128
    """And threads."""
    disk_bytes: int = 256 << 20
    wall_time: timedelta = timedelta(hours=1)
    """However often its lease is renewed."""

    @property
    def bytes(self) -> int:
        return self.memory_bytes + self.disk_bytes


@dataclass(frozen=True, slots=True)
class WorkspaceSpec:
    """`runtime`: a Python environment of the node, or an image by its name in full. `keep_processes`: what an exec
    leaves running lives on, until the workspace ends; else it is killed at the end of its exec."""

    runtime: str = "python"
    limits: WorkspaceLimits = WorkspaceLimits()
    keep_processes: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A program by its name or path, found by the PATH of `environment`. `folder`: relative to the workspace's."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    cpu_time: timedelta | None = None
    wall_time: timedelta | None = None
    output_bytes: int = 16 << 20
    """Kept of stdout and stderr together; what is beyond is dropped, and the program goes on."""
    relay: bool = False
    """Connections to the relay's port are carried to its caller. It has no standard input then."""


class ExecEnd(StrEnum):
    """How the processes of an exec came to their end."""

    EXITED = "exited"  # by themselves: see Exit.status
    CPU = "cpu"
    MEMORY = "memory"
    WALL = "wall"
    DISK = "disk"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Usage:
    """As of the end of the last exec. `processes`: those that live on."""

    cpu_time: timedelta = timedelta()
    disk_bytes: int = 0
    max_memory_bytes: int = 0
    processes: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    data: bytes
    error: bool = False
    """From standard error."""


@dataclass(frozen=True, slots=True)
class Relayed:
    """A piece of a connection between a program and whatever the exec's caller connects it to. A new number begins one.

    `taken_bytes`: number of the other side's bytes that have been taken; it may send as many more."""

    connection: int
    data: bytes = b""
    taken_bytes: int = 0
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of an exec, as the cage's own processes saw it. `status`: negative for a signal. `reason`: why the
    program could not be started."""

    end: ExecEnd
    status: int
    cpu_time: timedelta
    wall_time: timedelta
    usage: Usage
    reason: str = ""
    output_cut: bool = False


@dataclass(frozen=True, slots=True)
class Workspace:
    id: str
    caller: str
    spec: WorkspaceSpec
    create_time: datetime
    expire_time: datetime
    level: Level = Level.NONE
    layers: tuple[str, ...] = ()
    usage: Usage = Usage()

    def seen_by(self, caller: str) -> "Workspace":
        """Raises NotFound for another's."""
        if caller != self.caller:
            raise no_workspace(self.id)
        return self

    def renew(self, now: datetime, lease: timedelta) -> "Workspace":
        """Never beyond its wall time."""
        return replace(self, expire_time=min(now + lease, self.create_time + self.spec.limits.wall_time))


def no_workspace(id: str, reason: str = "its lease is over, it was deleted, or this node never had it") -> NotFound:
    return NotFound(f"no workspace {id!r}: {reason}")
