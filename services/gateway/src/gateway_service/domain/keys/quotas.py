"""Quotas of projects: runs at once, time of machines, tokens and money in a month, storage."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Protocol

from ratchet_kit import projects
from ratchet_kit.errors import ResourceExhausted
from ratchet_kit.logs import get_logger
from ratchet_kit.times import Clock

log = get_logger(__name__)

NOTICE = 0.8
"""Share of a quota at which the log has a warning."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Maxima of a project. 0: no limit."""

    runs: int = 0
    """Waiting and running at the same time."""
    gpu_seconds: int = 0
    """In a month (UTC), of the runs and evaluations that it created in the month."""
    cpu_seconds: int = 0
    """As `gpu_seconds`."""
    tokens: int = 0
    """Tokens of prompts and answers of all its keys in a month."""
    storage_bytes: int = 0
    """Size of its versions and data sets."""
    cost: float = 0
    """As `gpu_seconds`, in the currency of RATCHET_PRICES: a month's budget."""


@dataclass(frozen=True, slots=True)
class Used:
    """Uses of a project, as in Quota."""

    runs: int = 0
    gpu_seconds: float = 0
    cpu_seconds: float = 0
    storage_bytes: int = 0
    cost: float = 0


class Ledger(Protocol):
    async def used(self, project: str, since: datetime) -> Used:
        """Uses of a project now, and since the begin of the month. Raises Unavailable."""
        ...


NEEDS = {
    "CreateRun": ("runs", "gpu_seconds", "cpu_seconds", "cost", "storage_bytes"),
    "ResumeRun": ("runs", "gpu_seconds", "cpu_seconds", "cost", "storage_bytes"),
    "CreateEvaluation": ("gpu_seconds", "cpu_seconds", "cost"),
    "CreateVersion": ("storage_bytes",),
    "ExportCheckpoint": ("storage_bytes",),
    "CreateDataset": ("storage_bytes",),
}
"""By RPC, the quotas that must have room for it. Tokens: see Usage."""
REASONS = {
    "runs": "runs at the same time: wait for one to end, or cancel one",
    "gpu_seconds": "GPU-seconds of this month (UTC)",
    "cpu_seconds": "CPU-seconds of this month (UTC)",
    "cost": "in costs of runs and evaluations of this month (UTC)",
    "storage_bytes": "bytes of versions and data sets: delete those that are not needed",
}


class Quotas:
    def __init__(self, quotas: Mapping[str, Quota], ledger: Ledger | None, clock: Clock) -> None:
        """`quotas`: by project; "default" is the platform's own. `ledger`: None if there are no quotas."""
        self._quotas = quotas
        self._ledger = ledger
        self._clock = clock
        self._turns = defaultdict[str, asyncio.Lock](asyncio.Lock)

    @asynccontextmanager
    async def room(self, rpc: str, project: str) -> AsyncIterator[None]:
        """Around an RPC of a project; one at a time that needs room. Raises ResourceExhausted, Unavailable."""
        quota, needs = self._quotas.get(project or projects.DEFAULT), NEEDS.get(rpc)
        if quota is None or needs is None or self._ledger is None:
            yield
            return
        async with self._turns[project]:
            month = self._clock.now().astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            used, most = asdict(await self._ledger.used(project, month)), asdict(quota)
            for name in needs:
                if most[name] and used[name] >= most[name]:
                    raise ResourceExhausted(f"project {project} has used its {most[name]:,} {REASONS[name]}")
                if most[name] and used[name] >= NOTICE * most[name]:
                    log.warning("project.quota_nearly_used", of=name, used=used[name], quota=most[name])
            yield
