"""Test doubles of the sandbox: an executor that answers as its script says, and keeps the jobs it was given."""

from collections.abc import Awaitable, Callable

from sandbox_service.domain.capabilities import Capabilities
from sandbox_service.domain.jobs import Job, Report

Script = Callable[[Job], Awaitable[Report]]


class ScriptedExecutor:
    def __init__(self, script: Script, lanes: int = 2) -> None:
        """`script` is awaited for every job, and may raise what the port may raise."""
        self._script = script
        self.capabilities = Capabilities(("scripted",), "3.11.0", lanes)
        self.jobs: list[Job] = []
        self.lanes_up = self.lanes_busy = 0

    async def describe(self) -> Capabilities:
        return self.capabilities

    async def fork_limit(self, count: int) -> float:
        return 1000.0

    async def leftovers(self) -> list[str]:
        return []

    async def run(self, job: Job) -> Report:
        self.jobs.append(job)
        return await self._script(job)
