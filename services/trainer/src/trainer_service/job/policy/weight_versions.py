"""The weights that rollout-service was sent: which they are, and what brings them back."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ratchet_kit.errors import DataLoss, RatchetError
from trainer_service.job.policy.policy import RunPolicy
from trainer_service.job.run.faults import check_versions


@dataclass(frozen=True, slots=True)
class Version:
    step: int
    """After which the trainer had these weights."""
    policy_id: str


@dataclass(slots=True)  # mutable: written by the main thread, read by the background loop
class WeightVersions:
    push: Callable[[], str]
    """Sends them again, and returns their policy id."""
    max_staleness: int = 0
    """Steps that samples may be older than the weights that learn from them."""
    version: Version = Version(0, "")
    """The one that was sent last."""
    _ids: dict[int, str] = field(default_factory=dict)
    """By step, those that samples may still be of."""
    _restoring: asyncio.Lock = field(default_factory=asyncio.Lock)
    _renewed: "Future[None] | None" = None
    """Ends with what is being sent now; None: nothing is."""

    @contextmanager
    def renewing(self) -> Iterator[None]:
        """New weights are being sent: the engine may have them before `now` says so."""
        self._renewed = ended = Future[None]()
        try:
            yield
        finally:
            self._renewed = None
            ended.set_result(None)

    def now(self, policy_id: str, step: int) -> None:
        """These have been sent."""
        self.version = Version(step, policy_id)
        kept = {version: known for version, known in self._ids.items() if version >= step - self.max_staleness}
        self._ids = kept | {step: policy_id}

    async def settled(self) -> Version:
        """The version that the engine has, once none is being sent."""
        while (renewed := self._renewed) is not None:
            await asyncio.shield(asyncio.wrap_future(renewed))
        return self.version

    def of(self, policy_id: str) -> Version:
        """The newest with this id. Raises DataLoss for weights that samples may not be of."""
        for step in sorted(self._ids, reverse=True):
            if self._ids[step] == policy_id:
                return Version(step, policy_id)
        raise DataLoss(f"an answer is of {policy_id}, and the run's weights are {self.version.policy_id}")

    def check(self, step: int, tags: Sequence[Mapping[str, Any]]) -> bool:
        """True where all that a step learns from is of the weights that it begins with. Raises as
        `faults.check_versions`."""
        return check_versions(step, tags, self._ids, self.max_staleness)

    async def restore(self, policy: RunPolicy, error: RatchetError, policy_id: str) -> None:
        """Sends the weights again, unless another group just did. Raises `error` when the policy is there with other
        weights than these, or was sent others since, and DataLoss when others were sent now: of such nothing may be
        learned. Of several engines, the one that is left may not have got any yet."""
        async with self._restoring:
            if (await self.settled()).policy_id != policy_id:
                raise error
            loaded = await policy.loaded_weights()
            if loaded is None or (policy.engines > 1 and loaded != policy_id):
                sent = await asyncio.to_thread(self.push)
                if sent != policy_id:
                    raise DataLoss(f"the engine was lost with the weights {policy_id}, and was given {sent}") from error
            elif loaded != policy_id:
                raise error
