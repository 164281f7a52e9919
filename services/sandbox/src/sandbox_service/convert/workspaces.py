"""Workspaces: from protobuf and to it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

from ratchet.sandbox.v1 import program_pb2
from ratchet.sandbox.v1 import workspace_pb2 as pb
from ratchet_kit.errors import invalid
from ratchet_kit.faults import Faults
from ratchet_kit.pages import Page
from ratchet_kit.times import duration_from_proto, duration_to_proto, timestamp_to_proto
from sandbox_service.convert.programs import MIN_MEMORY
from sandbox_service.convert.reading import Bounds
from sandbox_service.domain.workspace import (
    Command,
    ExecEnd,
    Exit,
    Output,
    Relayed,
    Usage,
    Workspace,
    WorkspaceLimits,
    WorkspaceSpec,
)

_LEASE, _LONGEST_LEASE, _LONGEST = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_MOST_PROCESSES, _LEAST_DISK = 1024, 1 << 20
_COMMAND_BYTES, _MOST_OUTPUT = 64 << 10, 256 << 20
_MAX_PATHS, _MAX_PATH = 256, 4096
_ENDS = {
    ExecEnd.EXITED: pb.ExecExit.END_EXITED,
    ExecEnd.CPU: pb.ExecExit.END_CPU_LIMIT,
    ExecEnd.MEMORY: pb.ExecExit.END_MEMORY_LIMIT,
    ExecEnd.WALL: pb.ExecExit.END_WALL_LIMIT,
    ExecEnd.DISK: pb.ExecExit.END_DISK_LIMIT,
}


@dataclass(frozen=True, slots=True)
class NewWorkspace:
    """A CreateWorkspace request."""

    spec: WorkspaceSpec
    lease: timedelta
    copy_of: str


def new_workspace_from_proto(request: pb.CreateWorkspaceRequest, bounds: Bounds) -> NewWorkspace:
    """Raises InvalidArgument, with all faults."""
    faults = Faults()
    faults.length("runtime", request.runtime, 200)
    limits = _limits(request.limits, bounds, faults.under("limits"))
    lease = _lease(request, faults)
    faults.raise_if_any()
    return NewWorkspace(
        WorkspaceSpec(request.runtime or "python", limits, request.keep_processes), lease, request.copy_of
    )


def lease_from_proto(request: pb.RenewWorkspaceRequest) -> timedelta:
    """Raises InvalidArgument."""
    faults = Faults()
    lease = _lease(request, faults)
    faults.raise_if_any()
    return lease


def _lease(request: pb.CreateWorkspaceRequest | pb.RenewWorkspaceRequest, faults: Faults) -> timedelta:
    lease = duration_from_proto(request.lease) if request.HasField("lease") else _LEASE
    faults.bounds("lease", lease, at_least=timedelta(seconds=1), at_most=_LONGEST_LEASE)
    return lease


def _limits(message: pb.WorkspaceLimits, bounds: Bounds, faults: Faults) -> WorkspaceLimits:
    default, most = WorkspaceLimits(), bounds.limits.memory_bytes
    limits = WorkspaceLimits(
        duration_from_proto(message.cpu_time) if message.HasField("cpu_time") else default.cpu_time,
        message.memory_bytes or min(default.memory_bytes, most),
        message.processes or default.processes,
        message.disk_bytes or min(default.disk_bytes, most),
        duration_from_proto(message.wall_time) if message.HasField("wall_time") else default.wall_time,
    )
    faults.bounds("cpu_time", limits.cpu_time, above=timedelta(), at_most=_LONGEST)
    faults.bounds("memory_bytes", limits.memory_bytes, at_least=MIN_MEMORY, at_most=most)
    faults.bounds("processes", limits.processes, at_least=1, at_most=_MOST_PROCESSES)
    faults.bounds("disk_bytes", limits.disk_bytes, at_least=_LEAST_DISK, at_most=most)
    faults.bounds("wall_time", limits.wall_time, at_least=timedelta(seconds=1), at_most=_LONGEST)
    return limits


def command_from_proto(start: pb.ExecStart) -> Command:
    """Raises InvalidArgument, with all faults."""
    faults = Faults().under("start")
    faults.required("argv", start.argv and start.argv[0])
    words = [*start.argv, *start.environment, *start.environment.values()]
    size = sum(len(word.encode()) + 1 for word in words)
    faults.unless(size <= _COMMAND_BYTES, "argv", f"has {size} bytes with the environment; at most {_COMMAND_BYTES}")
    faults.unless(not any("\0" in word for word in words), "argv", "and environment must not hold NUL")
    names = all(name and "=" not in name for name in start.environment)
    faults.unless(names, "environment", "must have names, without '='")
    _path("folder", start.folder, faults)
    output = start.output_bytes or Command(()).output_bytes
    faults.bounds("output_bytes", output, at_least=1, at_most=_MOST_OUTPUT)
    cpu, wall = (_given(start.HasField(name), getattr(start, name), name, faults) for name in ("cpu_time", "wall_time"))
    faults.raise_if_any()
    return Command(tuple(start.argv), dict(start.environment), start.folder, cpu, wall, output, start.relay)


def _given(there: bool, message: Duration, name: str, faults: Faults) -> timedelta | None:
    if not there:
        return None
    value = duration_from_proto(message)
    faults.bounds(name, value, above=timedelta(), at_most=_LONGEST)
    return value


def _path(field: str, path: str, faults: Faults) -> None:
    if faults.length(field, path, _MAX_PATH):
        inside = not path.startswith("/") and ".." not in path.split("/")
        faults.unless(inside, field, f"must be a path within the workspace's folder, not {path[:80]!r}")


def folder_from_proto(request: pb.WriteFilesRequest) -> str:
    """Raises InvalidArgument."""
    faults = Faults()
    _path("folder", request.folder, faults)
    faults.raise_if_any()
    return request.folder


def paths_from_proto(paths: Iterable[str]) -> list[str]:
    """Raises InvalidArgument, with all faults."""
    found, faults = list(paths), Faults()
    faults.required("paths", found)
    if faults.length("paths", found, _MAX_PATHS):
        for i, path in enumerate(found):
            _path(f"paths[{i}]", path, faults)
    faults.raise_if_any()
    return found


def given_from_proto(request: pb.ExecRequest, relay: bool) -> bytes | Relayed:
    """Reads any request but the first. Raises InvalidArgument."""
    kind = request.WhichOneof("request") or "stdin"
    if kind == "start":
        raise invalid("start", "must come in the first request alone")
    if relay != (kind == "relay"):
        raise invalid(kind, "goes with a start that has a relay" if not relay else "does not go with a relay")
    if not relay:
        return request.stdin
    piece = request.relay
    if piece.taken_bytes < 0:
        raise invalid("relay.taken_bytes", "must not be negative")
    return Relayed(piece.connection, piece.data, piece.taken_bytes, piece.closed)


def start_from_proto(request: pb.ExecRequest | None) -> pb.ExecStart:
    """Raises InvalidArgument."""
    if request is None or request.WhichOneof("request") != "start":
        raise invalid("start", "must be in the first request")
    return request.start


def workspace_to_proto(workspace: Workspace) -> pb.Workspace:
    spec, limits = workspace.spec, workspace.spec.limits
    return pb.Workspace(
        id=workspace.id,
        runtime=spec.runtime,
        limits=pb.WorkspaceLimits(
            cpu_time=duration_to_proto(limits.cpu_time),
            memory_bytes=limits.memory_bytes,
            processes=limits.processes,
            disk_bytes=limits.disk_bytes,
            wall_time=duration_to_proto(limits.wall_time),
        ),
        keep_processes=spec.keep_processes,
        level=program_pb2.IsolationLevel.Value(f"ISOLATION_LEVEL_{workspace.level.name}"),
        isolation_layers=workspace.layers,
        create_time=timestamp_to_proto(workspace.create_time),
        expire_time=timestamp_to_proto(workspace.expire_time),
        usage=usage_to_proto(workspace.usage),
    )


def usage_to_proto(usage: Usage) -> pb.WorkspaceUsage:
    return pb.WorkspaceUsage(
        cpu_time=duration_to_proto(usage.cpu_time),
        disk_bytes=usage.disk_bytes,
        max_memory_bytes=usage.max_memory_bytes,
        processes=usage.processes,
    )


def workspaces_to_proto(page: Page[Workspace]) -> pb.ListWorkspacesResponse:
    return pb.ListWorkspacesResponse(
        workspaces=page.map(workspace_to_proto).items, next_page_token=page.next_page_token
    )


def event_to_proto(event: Output | Relayed | Exit) -> pb.ExecResponse:
    if isinstance(event, Relayed):
        piece = pb.RelayPiece(
            connection=event.connection, data=event.data, taken_bytes=event.taken_bytes, closed=event.closed
        )
        return pb.ExecResponse(relay=piece)
    if isinstance(event, Output):
        return pb.ExecResponse(stderr=event.data) if event.error else pb.ExecResponse(stdout=event.data)
    return pb.ExecResponse(
        exit=pb.ExecExit(
            end=_ENDS[event.end],
            status=event.status,
            cpu_time=duration_to_proto(event.cpu_time),
            wall_time=duration_to_proto(event.wall_time),
            output_cut=event.output_cut,
            reason=event.reason,
            usage=usage_to_proto(event.usage),
        )
    )
