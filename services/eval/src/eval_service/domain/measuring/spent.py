"""The usage of an attempt at an evaluation."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from eval_service.domain.ports import LoadedPolicy
from ratchet_kit.usage import Prices, Usage, priced, total


@dataclass(slots=True)  # mutable: it counts
class Spent:
    """Programs that tried references, and what was known from other evaluations, are nobody's."""

    start_time: datetime
    prices: Prices | None = None
    """None: it has no cost."""
    policies: list[LoadedPolicy] = field(default_factory=list)
    """All that it opened, one after another."""
    sandbox_time: timedelta = timedelta()

    async def until(self, now: datetime) -> Usage:
        shares = [await policy.look() for policy in self.policies]
        usage = Usage(sandbox_time=self.sandbox_time, wall_time=now - self.start_time) + total(
            Usage(
                share.gpu_time,
                share.cpu_time,
                prompt_tokens=share.prompt_tokens,
                completion_tokens=share.completion_tokens,
                gpu_busy_time=share.gpu_busy_time,
                gpu_watched_time=share.gpu_watched_time,
            )
            for share in shares
        )
        return priced(usage, self.prices)
