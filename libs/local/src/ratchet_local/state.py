"""The supervisor's report on its processes, in the state file of the home."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServiceState:
    """One supervised process as `ratchet status` shows it."""

    name: str
    state: str  # starting, healthy, restarting, stopped, failed
    pid: int | None = None
    restarts: int = 0
    since: float = 0.0  # seconds since the epoch
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PlatformState:
    """The supervisor's last report on itself."""

    pid: int
    started: float
    ports: Mapping[str, int]
    services: tuple[ServiceState, ...]

    def service(self, name: str) -> ServiceState | None:
        return next((service for service in self.services if service.name == name), None)

    @property
    def healthy(self) -> bool:
        return bool(self.services) and all(service.state == "healthy" for service in self.services)
