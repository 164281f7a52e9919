"""The weights that rollout-service was sent: which they are, and what brings them back."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ratchet_kit.errors import DataLoss, RatchetError
from trainer_service.job.policy.policy import RunPolicy
from trainer_service.job.run.faults import check_versions


@dataclass(slots=True)  # mutable: written by the main thread between generations, read by the background loop in them
class WeightVersions:
    push: Callable[[], str]
    """Sends them again, and returns their policy id."""
    max_staleness: int = 0
    """Steps that samples may be older than the weights that learn from them."""
    policy_id: str = ""
    step: int = 0
    """After which the trainer had them."""
    _ids: dict[int, str] = field(default_factory=dict)
    """By step, those that samples may still be of."""
    _restoring: asyncio.Lock = field(default_factory=asyncio.Lock)

    def now(self, policy_id: str, step: int) -> None:
        """These have been sent."""
        self.policy_id, self.step = policy_id, step
        kept = {version: known for version, known in self._ids.items() if version >= step - self.max_staleness}
        self._ids = kept | {step: policy_id}

    def check(self, step: int, tags: Sequence[Mapping[str, Any]]) -> bool:
        """Whether all samples that a step learns from are of the weights that it begins with. Raises as
        `faults.check_versions`."""
        return check_versions(step, tags, self._ids, self.max_staleness)

    async def restore(self, policy: RunPolicy, error: RatchetError, policy_id: str) -> None:
        """Sends the weights again, unless another group just did. Raises `error` when the policy is there with other
        weights than these, and DataLoss when others were sent: of such nothing may be learned. Of several engines, the
        one that is left may not have got any yet."""
        async with self._restoring:
            loaded = await policy.loaded_weights()
            if loaded is None or (policy.engines > 1 and loaded != policy_id):
                sent = await asyncio.to_thread(self.push)
                if sent != policy_id:
                    raise DataLoss(f"the engine was lost with the weights {policy_id}, and was given {sent}") from error
            elif loaded != policy_id:
                raise error
