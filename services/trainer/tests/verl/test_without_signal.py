"""What has no advantage goes forwards alone, and nothing else is learned for it."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

import verl.workers.engine.utils as engine_utils  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from verl.trainer.config import RolloutCorrectionConfig  # noqa: E402
from verl.utils import tensordict_utils as tu  # noqa: E402
from verl.workers.config import PolicyLossConfig  # noqa: E402
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead  # noqa: E402

from trainer_service.verl.rank import losses  # noqa: E402
from trainer_service.verl.rank.patches import padded_passes, without_signal  # noqa: E402

from .tensors import nested  # noqa: E402

pytestmark = pytest.mark.verl

LENGTHS = [3, 5, 2, 4, 6]
SILENT = [0, 2, 3]


@pytest.fixture(autouse=True)
def _patched(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of a job, whatever other tests have patched."""
    monkeypatch.setattr(engine_utils, "rearrange_micro_batches", engine_utils.rearrange_micro_batches)
    for name in ("forward_backward_batch", "forward_step"):
        monkeypatch.setattr(FSDPEngineWithLMHead, name, getattr(FSDPEngineWithLMHead, name))
    padded_passes.apply()
    without_signal.apply()


def batch(silent: list[int] = SILENT) -> TensorDict:
    advantages = [torch.zeros(length) if row in silent else torch.randn(length) for row, length in enumerate(LENGTHS)]
    masks = [torch.ones(length, dtype=torch.int64) for length in LENGTHS]
    tokens = [torch.full((length + 2,), row) for row, length in enumerate(LENGTHS)]
    fields = {"input_ids": nested(tokens), "advantages": nested(advantages), "response_mask": nested(masks)}
    data = TensorDict(fields, batch_size=len(LENGTHS))
    tu.assign_non_tensor(data, use_remove_padding=False, max_token_len_per_gpu=12)
    return data


def test_what_has_no_advantage_is_in_passes_of_its_own_and_they_come_first() -> None:
    data = batch()
    tu.assign_non_tensor(data, **{without_signal.APART: True})
    passes, indices = engine_utils.prepare_micro_batches(data)
    forwards = [tu.get_non_tensor_data(one, without_signal.FORWARDS, default=None) for one in passes]
    assert forwards == sorted(forwards, reverse=True)
    assert sorted(place for group in indices for place in group) == [0, 1, 2, 3, 4]
    for one, group, alone in zip(passes, indices, forwards, strict=True):
        assert [int(row[0]) for row in one["input_ids"].unbind()] == list(group)
        assert {place in SILENT for place in group} == {alone}


def test_where_nobody_asks_they_are_together() -> None:
    data = batch()
    tu.assign_non_tensor(data, max_token_len_per_gpu=24)
    passes, indices = engine_utils.prepare_micro_batches(data)
    assert {tu.get_non_tensor_data(one, without_signal.FORWARDS, default=None) for one in passes} == {None}
    assert any({place in SILENT for place in group} == {True, False} for group in indices)


def test_what_is_masked_has_none_and_one_row_always_learns() -> None:
    data = batch(silent=[])
    masks = [torch.full((length,), int(row == 4)) for row, length in enumerate(LENGTHS)]
    assert without_signal.parted(data["advantages"], nested(masks)) == ([0, 1, 2, 3], [4])
    nothing = batch(silent=[0, 1, 2, 3, 4])
    assert without_signal.parted(nothing["advantages"], nothing["response_mask"]) == ([1, 2, 3, 4], [0])


class Engine:
    """What is called of verl's, with a loss that has a gradient."""

    def __init__(self, ranks: int = 1) -> None:
        self.ranks = ranks
        self.weight = torch.ones((), requires_grad=True)

    def get_data_parallel_size(self) -> int:
        return self.ranks


@pytest.mark.parametrize("forwards", [True, False])
def test_such_a_pass_has_metrics_and_no_gradient(forwards: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def step(self: Any, micro_batch: TensorDict, loss_function: Any, forward_only: bool) -> Any:
        seen.append(torch.is_grad_enabled())
        return self.weight * 3, {"metrics": {"entropy": 1.0}}

    monkeypatch.setattr(FSDPEngineWithLMHead, "forward_step", step)
    without_signal.apply()
    engine, data = Engine(), batch()
    tu.assign_non_tensor(data, **{without_signal.FORWARDS: forwards})
    loss, found = FSDPEngineWithLMHead.forward_step(engine, data, None, False)
    loss.backward()
    assert found == {"metrics": {"entropy": 1.0}}
    assert seen == [not forwards]
    assert engine.weight.grad == (None if forwards else 3)


@pytest.mark.parametrize(
    ("changes", "ranks", "forward_only", "apart"),
    [
        ({}, 1, False, True),
        ({"loss_mode": "gspo"}, 1, False, True),
        ({"loss_mode": "kl_cov"}, 1, False, False),
        ({"bypass_mode": False}, 1, False, False),
        ({"use_kl_loss": True}, 1, False, False),
        ({"entropy_coeff": 0.01}, 1, False, False),
        ({}, 2, False, False),
        ({}, 1, True, False),
    ],
)
def test_only_where_the_loss_is_of_advantages_alone(
    changes: dict[str, Any], ranks: int, forward_only: bool, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def run(self: Any, data: TensorDict, loss_function: Any, forward_only: bool = False) -> None:
        seen.append(tu.get_non_tensor_data(data, without_signal.APART, default=False))

    monkeypatch.setattr(FSDPEngineWithLMHead, "forward_backward_batch", run)
    without_signal.apply()
    correction = RolloutCorrectionConfig(bypass_mode=changes.get("bypass_mode", True))
    of_policy = PolicyLossConfig(loss_mode=changes.get("loss_mode", "vanilla"), rollout_correction=correction)
    config = SimpleNamespace(
        policy_loss=of_policy,
        use_kl_loss=changes.get("use_kl_loss", False),
        entropy_coeff=changes.get("entropy_coeff", 0),
    )
    loss = partial(losses.policy_loss, config=config)
    FSDPEngineWithLMHead.forward_backward_batch(Engine(ranks), batch(), loss, forward_only=forward_only)
    assert seen == [apart]
