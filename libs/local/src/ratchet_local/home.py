"""The folder of a local platform: databases, logs, artifacts, state and key."""

import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from ratchet_client import access, address
from ratchet_kit import files
from ratchet_kit.service_auth import digest_of
from ratchet_local.state import PlatformState, ServiceState


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of a local platform, $RATCHET_HOME or ~/.ratchet."""

    path: Path

    @classmethod
    def default(cls) -> "Home":
        return cls(address.home())

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
        return self.path / address.STATE_FILE

    @property
    def lock_file(self) -> Path:
        return self.path / "supervisor.lock"

    @property
    def key_file(self) -> Path:
        return self.path / address.KEY_FILE

    def log(self, service: str) -> Path:
        return self.logs / f"{service}.log"

    def create(self) -> None:
        """Raises OSError when the folder cannot be made."""
        own = [self.path / name for name in ("models", "problems")]  # for what users bring: see RATCHET_SOURCES
        for folder in (self.path, self.logs, self.databases, self.redis, self.artifacts, self.runs, *own):
            folder.mkdir(parents=True, exist_ok=True)

    def admin_key(self) -> str:
        """The key of the local administrator, made at the first call and readable by its owner only."""
        return files.secret(self.key_file, lambda: f"rk_{secrets.token_hex(32)}")

    def service_token(self) -> str:
        """The token that the services show one another, made at the first call and readable by its owner only."""
        return files.secret(self.token_file, lambda: secrets.token_hex(32)).split()[0]

    @property
    def token_file(self) -> Path:
        return self.path / access.TOKEN_FILE

    def digest_file(self) -> Path:
        """For the sandbox: digests of the token, or of both while it is changed."""
        self.service_token()
        file = self.path / "service.digest"
        file.write_text("".join(f"{digest_of(one)}\n" for one in self.token_file.read_text().split()))
        return file

    def redis_password(self) -> str:
        """The password of the bundled Redis, made and kept like the token."""
        return files.secret(self.path / "redis.password", lambda: secrets.token_hex(32))

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
