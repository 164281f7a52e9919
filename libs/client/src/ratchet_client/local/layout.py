"""Where the local platform keeps its things, and which ports it listens on."""

import json
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

DEFAULT_PORT_BASE = 8700

# Offset from the port base of everything that listens. Ray takes a block of its own from RAY on.
OFFSETS: Mapping[str, int] = {
    "gateway-http": 0,
    "gateway": 1,
    "trainer": 2,
    "rollout": 3,
    "sandbox": 4,
    "eval": 5,
    "registry": 6,
    "redis": 7,
    "sandbox-http": 8,
    "gateway-metrics": 11,
    "trainer-metrics": 12,
    "rollout-metrics": 13,
    "sandbox-metrics": 14,
    "eval-metrics": 15,
    "registry-metrics": 16,
    "ray": 20,
}
# GCS, dashboard, agents and workers: how many ports from "ray" on belong to Ray.
RAY_PORTS = 20


@dataclass(frozen=True)
class Ports:
    """The port of each listener, by the names of OFFSETS."""

    by_name: Mapping[str, int]

    def __getitem__(self, name: str) -> int:
        return self.by_name[name]

    def target(self, name: str) -> str:
        return f"127.0.0.1:{self.by_name[name]}"

    @classmethod
    def from_base(cls, base: int) -> "Ports":
        """Fixed offsets from `base`; 0 looks for a base whose whole block is free."""
        if base == 0:
            base = _free_block()
        return cls({name: base + offset for name, offset in OFFSETS.items()})

    def taken(self) -> list[tuple[str, int]]:
        """The listeners whose port some other program holds."""
        return [(name, port) for name, port in self.by_name.items() if not _is_free(port)]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_block() -> int:
    """A base below the ephemeral range whose whole block is free at this moment."""
    span = OFFSETS["ray"] + RAY_PORTS
    for _ in range(200):
        base = 10_000 + secrets.randbelow(20_000)
        if all(_is_free(port) for port in range(base, base + span)):
            return base
    raise OSError(f"no block of {span} free ports found between 10000 and 30000")


@dataclass(frozen=True)
class ServiceState:
    """One supervised process as `ratchet status` shows it."""

    name: str
    state: str  # starting, healthy, restarting, stopped, failed
    pid: int | None = None
    restarts: int = 0
    since: float = 0.0  # seconds since the epoch
    detail: str = ""


@dataclass(frozen=True)
class PlatformState:
    """What the supervisor last wrote about itself."""

    pid: int
    started: float
    ports: Mapping[str, int]
    services: tuple[ServiceState, ...]

    def service(self, name: str) -> ServiceState | None:
        return next((service for service in self.services if service.name == name), None)

    @property
    def healthy(self) -> bool:
        return bool(self.services) and all(service.state == "healthy" for service in self.services)


@dataclass(frozen=True)
class Home:
    """The folder of a local platform, $RATCHET_HOME or ~/.ratchet."""

    path: Path

    @classmethod
    def default(cls) -> "Home":
        return cls(Path(os.environ.get("RATCHET_HOME") or Path.home() / ".ratchet").absolute())

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def databases(self) -> Path:
        return self.path / "db"

    @property
    def redis(self) -> Path:
        return self.path / "redis"

    @property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def state_file(self) -> Path:
        return self.path / "state.json"

    @property
    def lock_file(self) -> Path:
        return self.path / "supervisor.lock"

    def log(self, service: str) -> Path:
        return self.logs / f"{service}.log"

    def create(self) -> None:
        """Raises OSError when the folder cannot be made."""
        for folder in (self.path, self.logs, self.databases, self.redis, self.artifacts, self.runs):
            folder.mkdir(parents=True, exist_ok=True)

    def admin_key(self) -> str:
        """The key of the local administrator, made at the first call and readable by its owner only."""
        file = self.path / "admin.key"
        try:
            descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return file.read_text().strip()
        with os.fdopen(descriptor, "w") as out:
            key = f"rk_{secrets.token_hex(32)}"
            out.write(key)
        return key

    def write_state(self, state: PlatformState) -> None:
        draft = self.state_file.with_suffix(".tmp")
        draft.write_text(json.dumps(asdict(state)))
        draft.replace(self.state_file)

    def read_state(self) -> PlatformState | None:
        """None when no platform was started here, or its state was removed at a clean stop."""
        try:
            raw = json.loads(self.state_file.read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None
        return PlatformState(
            pid=raw["pid"],
            started=raw["started"],
            ports=raw["ports"],
            services=tuple(ServiceState(**service) for service in raw["services"]),
        )
