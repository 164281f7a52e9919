"""Samples come in the order of their prompts, and a step of which nothing is left is the platform's fault."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from ratchet_kit.errors import Unavailable
from trainer_service.verl.driver.step_sampling import CUT_OFF, FAULTS, Replay

pytestmark = pytest.mark.verl

CHOSEN: list[tuple[int, list[str]]] = []
AWAITED = 3
"""The oldest version of what is under way."""
ORDERS = {"x": (4, 0), "y": (3, 0), "z": (3, 1)}


def refuse(step: int, lost: int, expected: int) -> None:
    raise Unavailable(f"step {step}: {lost} of {expected} samples are lost: no lane")


@pytest.fixture
def replay() -> Replay:
    return Replay(
        group_size=2,
        max_filtered=0,
        source=lambda: SimpleNamespace(
            check_faults=refuse,
            order_of=ORDERS.__getitem__,
            cut_off=lambda uids: uids.count("z"),
            choose=lambda step, uids: CHOSEN.append((step, [*uids])),
            is_awaited=lambda step, max_staleness: step - max_staleness > AWAITED,
        ),
        max_staleness=1,
        trainer_mode="sync",
        trainer_config={},
        max_off_policy_threshold=None,
        max_off_policy_strategy="drop",
        sampler_kwargs={},
    )


def test_samples_come_in_the_order_of_their_prompts(replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    arrived = ["x_1_0", "z_0_0", "y_1_0", "x_0_0", "y_0_1", "y_0_0", "z_1_0"]

    def materialize(self: Any, partition: str, *selected: Any) -> KVBatchMeta:
        return KVBatchMeta(arrived, [{"of": key} for key in arrived], partition_id=partition)

    monkeypatch.setattr(ReplayBuffer, "_materialize_batch", materialize)
    batch = replay._materialize_batch("train", [], {})
    assert batch.keys == ["y_0_0", "y_0_1", "y_1_0", "z_0_0", "z_1_0", "x_0_0", "x_1_0"]
    assert [tag["of"] for tag in batch.tags] == batch.keys


def test_prompts_are_chosen_in_the_order_in_which_they_were_drawn(replay: Replay) -> None:
    assert replay._select_prompt_uids("train", {"x", "y", "z"}, 2)[0] == ["y", "z"]
    assert CHOSEN[-1] == (0, ["y", "z"])


def test_a_step_waits_for_what_the_next_may_not_learn_from(replay: Replay) -> None:
    replay.finished_keys["train"] = {"x", "y"}
    none = (set[str](), set[str](), set[str](), Counter[float]())
    replay._step = AWAITED + 1
    assert replay._sampleable_terminal_keys("train", none) == {"x", "y"}
    replay._step = AWAITED + 2
    assert replay._sampleable_terminal_keys("train", none) == set()


def test_an_episode_counts_once_and_one_that_was_cut_off_is_no_fault(
    replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = KVBatchMeta(["x_0_0", "x_0_1", "y_1_0"], [{}, {}, {}], partition_id="train")
    monkeypatch.setattr(ReplayBuffer, "sample", lambda *unused: (batch, {}))
    replay._select_prompt_uids("train", {"y", "z"}, 2)
    assert replay.sample(3, "train", 2)[1] == {FAULTS: 1, CUT_OFF: 1}  # of four, two came
    replay._select_prompt_uids("train", {"x", "y"}, 2)
    assert replay.sample(3, "train", 2)[1] == {FAULTS: 2, CUT_OFF: 0}, "of other prompts, which were replaced"


def test_a_step_of_which_nothing_is_left_is_tried_again(replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    def sample(self: Any, *args: Any) -> Any:
        raise RuntimeError("Sync replay buffer selected terminal groups with no materializable trajectories.")

    monkeypatch.setattr(ReplayBuffer, "sample", sample)
    with pytest.raises(Unavailable, match="step 3: 4 of 4 samples are lost: no lane"):
        replay.sample(3, "train", 2)
