"""Which finished groups a step trains on: verl's replay buffer, with faults counted and dynamic sampling bounded."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

FAULTS, CUT_OFF = "training/platform_faults", "training/cut_off"

# verl polls every 2 s, which is as long as a step of a small model takes. Here it looks when groups have ended; so
# often in any case.
POLL_S = 1.0


class Source(Protocol):
    """`Rollouts`."""

    def check_faults(self, step: int, lost: int, expected: int) -> None:
        """Raises what ends the attempt, where too many samples of a step were lost."""
        ...

    def cut_off(self, uids: Sequence[str]) -> int:
        """Number of episodes of these prompts whose time was over."""
        ...

    def order_of(self, uid: str) -> tuple[int, int]:
        """In which prompts were drawn."""
        ...

    def is_awaited(self, step: int, max_staleness: int) -> bool:
        """True while a prompt is being answered that would be too old for the step after this one."""
        ...

    def choose(self, step: int, uids: Iterable[str]) -> None:
        """The step learns from these prompts, or has replaced them."""
        ...

    def publish(self, seconds: float) -> None:
        """Puts groups that have ended where the buffer finds them, and returns when there were some, or after so long.
        Raises what ended the generation, since nothing more would arrive."""
        ...


class Replay(ReplayBuffer):
    """`group_size`: samples that a prompt should have; those that are missing were lost to platform faults.

    `max_filtered`: prompts that dynamic sampling (DAPO) may replace in one step. verl's own refill has no bound, and
    once rewards saturate there is nothing left to find (verl 0.9.1 ignores max_num_gen_batches); after this many the
    step takes the groups it gets, whose advantages are then 0.

    `max_staleness`: updates of the weights that a group's oldest token may be behind them. `source`: of the groups.
    Samples come in the order in which it has drawn their prompts, whichever ended first, since sums of floats depend on
    it. verl makes the buffer before there is a source, so it is given when it is needed.
    """

    def __init__(
        self,
        *,
        group_size: int,
        max_filtered: int,
        source: Callable[[], Source],
        max_staleness: int = 0,
        **verl_arguments: Any,
    ) -> None:
        super().__init__(poll_interval=POLL_S, **verl_arguments)
        self._group_size = group_size
        self._max_filtered = max_filtered
        self._source = source
        self._max_staleness = max_staleness
        self._step = 0
        self._filtered = 0
        self._selected: Sequence[str] = ()

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, Any]]:
        """`batch_size` prompts' samples. A lost sample is absent: verl fills its place with a row whose mask is 0, in a
        group of its own (padding_utils.upsample_batch_to_divisible_size), so it moves no gradient and no baseline.

        Raises as `Source.check_faults` when not one is left.
        """
        self._filtered, self._step = 0, global_steps
        try:
            batch, metrics = super().sample(global_steps, partition_id, batch_size)
        except RuntimeError as error:
            if "no materializable trajectories" not in str(error):
                raise
            wanted = batch_size * self._group_size
            self._source().check_faults(global_steps, wanted, wanted)
            raise
        samples, cut_off = len({key.rpartition("_")[0] for key in batch.keys}), self._source().cut_off(self._selected)
        lost = batch_size * self._group_size - samples - cut_off
        return batch, metrics | {FAULTS: lost, CUT_OFF: cut_off}

    def _dapo_filtered_keys(self, partition_id: str) -> tuple[set[str], Counter[float]]:
        if self._filtered >= self._max_filtered:
            return set(), Counter()
        return super()._dapo_filtered_keys(partition_id)

    def _evict_terminal_groups(self, *args: Any, **kwargs: Any) -> tuple[set[str], int, int, dict[str, Any]]:
        evicted = super()._evict_terminal_groups(*args, **kwargs)
        self._filtered += evicted[2]
        self._source().choose(self._step, evicted[0])
        return evicted

    def _sampleable_terminal_keys(self, *args: Any, **kwargs: Any) -> set[str]:
        """None while one is awaited. Dynamic sampling waits for all in any case."""
        if self.filter_groups_metric is None and self._source().is_awaited(self._step, self._max_staleness):
            return set()
        return super()._sampleable_terminal_keys(*args, **kwargs)

    def _select_prompt_uids(self, partition_id: str, sampleable_keys: Iterable[str], batch_size: int) -> Any:
        """The first that were drawn. Dynamic sampling drops the others."""
        found = super()._select_prompt_uids(
            partition_id, sorted(sampleable_keys, key=self._source().order_of), batch_size
        )
        self._selected = found[0]
        self._source().choose(self._step, self._selected if self.filter_groups_metric is None else sampleable_keys)
        return found

    def _materialize_batch(self, partition_id: str, *selected: Any) -> KVBatchMeta:
        batch = super()._materialize_batch(partition_id, *selected)
        rows = sorted(zip(batch.keys, batch.tags, strict=True), key=lambda row: self._order_of_sample(row[0]))
        return KVBatchMeta([key for key, _ in rows], [tag for _, tag in rows], partition_id=partition_id)

    def _order_of_sample(self, key: str) -> tuple[tuple[int, int], int, int]:
        """Keys are `<uid>_<session>_<index>`."""
        uid, session, index = key.rsplit("_", 2)
        return self._source().order_of(uid), int(session), int(index)

    def _wait_for_next_poll(self, partition_id: str, last_debug_time: float) -> float:
        self._source().publish(self.poll_interval)
        return last_debug_time
