"""Which ports the local platform listens on: a block from one base."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from ratchet_kit.ports import is_free

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


@dataclass(frozen=True, slots=True)
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
        return [(name, port) for name, port in self.by_name.items() if not is_free(port)]


def _free_block() -> int:
    """A base below the ephemeral range whose whole block is free at this moment."""
    span = OFFSETS["ray"] + RAY_PORTS
    for _ in range(200):
        base = 10_000 + secrets.randbelow(20_000)
        if all(is_free(port) for port in range(base, base + span)):
            return base
    raise OSError(f"no block of {span} free ports found between 10000 and 30000")
