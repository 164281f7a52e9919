"""RewardStore in memory, for tests: the same promises, for one process."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ratchet_kit.idempotency import Made, Request
from ratchet_kit.names import RewardRef
from registry_service.domain.reward import Reward, RewardSpec, not_there


class MemoryRewardStore:
    def __init__(self) -> None:
        self._rewards: dict[RewardRef, Reward] = {}
        self._latest: dict[str, int] = {}
        self._uses: set[tuple[RewardRef, str]] = set()
        self._made: Made[RewardRef] = Made("reward")

    async def create(self, spec: RewardSpec, actor: str, now: datetime, request: Request) -> Reward:
        if made := await self.find(request):
            return made
        for reward in self._rewards.values():
            if (reward.name, reward.digest) == (spec.name, spec.digest):
                return reward
        number = self._latest[spec.name] = self._latest.get(spec.name, 0) + 1
        size = len(spec.source.encode())
        reward = Reward(spec.name, number, spec.digest, size, spec.description, now, actor, spec.source)
        self._rewards[reward.ref] = reward
        self._made.add(request, reward.ref)
        return reward

    async def find(self, request: Request) -> Reward | None:
        ref = self._made.find(request)
        return None if ref is None else self._rewards[ref]

    async def get(self, ref: RewardRef) -> Reward:
        numbers = sorted(one.number for one in self._rewards.values() if one.name == ref.name)
        number = ref.number or (numbers[-1] if numbers else 0)
        if number not in numbers:
            raise not_there(ref, numbers, sorted({one.name for one in self._rewards}))
        return self._rewards[RewardRef(ref.name, number)]

    async def page(self, name: str | None, limit: int, after: Sequence[Any] | None) -> Sequence[Reward]:
        if name is not None:
            await self.get(RewardRef(name))
        ordered = sorted(self._rewards.values(), key=lambda one: (one.name, -one.number))
        return [
            replace(one, source="")
            for one in ordered
            if name in (None, one.name) and (after is None or (one.name, -one.number) > (after[0], -after[1]))
        ][:limit]

    async def use(self, ref: RewardRef, run_id: str, now: datetime) -> None:
        reward = await self.get(ref)
        if (ref, run_id) not in self._uses:
            self._uses.add((ref, run_id))
            self._rewards[ref] = replace(reward, runs=reward.runs + 1, last_run_id=run_id)

    async def delete(self, ref: RewardRef, *, force: bool) -> Reward:
        reward = await self.get(ref)
        reward.check_deletable(force=force)
        del self._rewards[ref]
        self._uses = {(used, run_id) for used, run_id in self._uses if used != ref}
        self._made.remove({ref})
        return reward
