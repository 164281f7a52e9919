"""The usage of an attempt, until now."""

import time
from datetime import timedelta
from pathlib import Path

from ratchet_environments.executor import Executor
from ratchet_environments.workspaces import Workspaces
from ratchet_kit.usage import Prices, Usage, priced
from trainer_service.job.policy.policy import RunPolicy
from trainer_service.job.run.process_usage import GpuTimes, Recorded, recorded_gpus


class UsageMeter:
    """Counts for one attempt, from when it is made."""

    def __init__(
        self,
        folder: Path,
        policy: RunPolicy,
        sandbox: Executor,
        workspaces: Workspaces,
        ranks: int,
        prices: Prices | None,
    ) -> None:
        """`folder`: what processes record in. `ranks`: that hold a GPU each; 0 on CPU."""
        self._folder = folder
        self._processes = Recorded(folder)
        self._policy = policy
        self._sandbox = sandbox
        self._workspaces = workspaces
        self._ranks = ranks
        self._prices = prices
        self._since = time.monotonic()
        self._held_since: float | None = None
        self._waited = timedelta()

    def hold(self) -> None:
        """The ranks have their GPUs from now on."""
        self._held_since = self._held_since or time.monotonic()

    def wait(self, seconds: float) -> None:
        """The trainer had to wait for samples."""
        self._waited += timedelta(seconds=seconds)

    def note(self) -> None:
        """Looks at the processes of the attempt, which may be killed from now on."""
        self._processes.read()

    async def read(self) -> Usage:
        """Until now. Raises nothing: where the engine does not answer, it counts as it was seen last."""
        await self._policy.look()
        ranks = recorded_gpus(self._folder) if self._ranks else GpuTimes()
        share, now = self._policy.share, time.monotonic()
        held = timedelta(seconds=now - self._held_since) if self._held_since else timedelta()
        usage = Usage(
            gpu_time=self._ranks * held + share.gpu_time,
            cpu_time=self._processes.read() + share.cpu_time,
            sandbox_time=self._sandbox.cpu_time + self._workspaces.cpu_time,
            prompt_tokens=share.prompt_tokens,
            completion_tokens=share.completion_tokens,
            wall_time=timedelta(seconds=now - self._since),
            wait_time=self._waited,
            gpu_busy_time=ranks.busy + share.gpu_busy_time,
            gpu_watched_time=ranks.watched + share.gpu_watched_time,
        )
        return priced(usage, self._prices)
