"""Rewards of one's own: store, find, list, note a use, delete."""

from functools import partial

from ratchet_kit.faults import Faults
from ratchet_kit.idempotency import Request, once
from ratchet_kit.logs import get_logger
from ratchet_kit.names import RewardRef
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock
from registry_service.domain.ports import RewardStore
from registry_service.domain.reward import Reward, RewardSpec

log = get_logger(__name__)

MAX_RUN_ID = 64


class Rewards:
    def __init__(self, store: RewardStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def create(self, spec: RewardSpec, request_id: str, actor: str = "") -> Reward:
        """The next version of its name, or the one that has this source already.

        Raises InvalidArgument, AlreadyExists when the request id was used for another reward.
        """
        spec.check()
        request = Request.of(request_id, spec.name, spec.source, spec.description)

        async def create() -> Reward:
            reward = await self._store.create(spec, actor, self._clock.now(), request)
            log.info("reward.created", reward=str(reward.ref), digest=reward.digest)
            return reward

        return await once(partial(self._store.find, request), create)

    async def get(self, ref: RewardRef) -> Reward:
        """Without a number the newest. Raises NotFound."""
        return await self._store.get(ref)

    async def page(self, name: str, page_size: int, page_token: str) -> Page[Reward]:
        """Pages of one name, or all, by name and the newest first, without their sources. Raises NotFound when there
        is no such reward."""
        fetch = partial(self._store.page, name or None)
        return await fetch_page(fetch, lambda reward: [reward.name, reward.number], (str, int), page_size, page_token)

    async def use(self, ref: RewardRef, run_id: str) -> None:
        """Notes that the run is made with it. The same again changes nothing. Raises InvalidArgument, NotFound."""
        faults = Faults()
        if faults.required("run_id", run_id):
            faults.length("run_id", run_id, MAX_RUN_ID)
        faults.raise_if_any()
        await self._store.use(ref, run_id, self._clock.now())

    async def delete(self, ref: RewardRef, *, force: bool) -> None:
        """Raises what RewardStore.delete raises."""
        reward = await self._store.delete(ref, force=force)
        log.info("reward.deleted", reward=str(ref), runs=reward.runs)
