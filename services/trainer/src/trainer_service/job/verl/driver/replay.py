"""Which finished groups a step trains on: verl's replay buffer, with faults counted and dynamic sampling bounded."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

FAULTS = "training/platform_faults"

# verl polls every 2 s, which is as long as a step of a small model takes.
POLL_S = 0.05


class Replay(ReplayBuffer):
    """`group_size`: samples that a prompt should have; those that are missing were lost to platform faults.

    `max_filtered`: prompts that dynamic sampling (DAPO) may replace in one step. verl's own refill has no bound, and
    once rewards saturate there is nothing left to find (verl 0.9.1 ignores max_num_gen_batches); after this many the
    step takes the groups it gets, whose advantages are then 0.

    `raise_failure`: called while waiting; raises what ended the generation, since nothing more would arrive.
    """

    def __init__(
        self, *, group_size: int, max_filtered: int, raise_failure: Callable[[], None], **verl_arguments: Any
    ) -> None:
        super().__init__(poll_interval=POLL_S, **verl_arguments)
        self._group_size = group_size
        self._max_filtered = max_filtered
        self._raise_failure = raise_failure
        self._filtered = 0

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, Any]]:
        """`batch_size` prompts' samples. A lost sample is absent: verl fills its place with a row whose mask is 0, in a
        group of its own (padding_utils.upsample_batch_to_divisible_size), so it moves no gradient and no baseline.
        """
        self._filtered = 0
        batch, metrics = super().sample(global_steps, partition_id, batch_size)
        return batch, metrics | {FAULTS: batch_size * self._group_size - len(batch.keys)}

    def _dapo_filtered_keys(self, partition_id: str) -> tuple[set[str], Counter[float]]:
        if self._filtered >= self._max_filtered:
            return set(), Counter()
        return super()._dapo_filtered_keys(partition_id)

    def _evict_terminal_groups(self, *args: Any, **kwargs: Any) -> tuple[set[str], int, int, dict[str, Any]]:
        evicted = super()._evict_terminal_groups(*args, **kwargs)
        self._filtered += evicted[2]
        return evicted

    def _wait_for_next_poll(self, partition_id: str, last_debug_time: float) -> float:
        self._raise_failure()
        time.sleep(self.poll_interval)
        return last_debug_time
