"""Log-probs, entropies and gradients are verl's own, of the tokens that are used."""

import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

from verl.utils.experimental.torch_functional import FusedLinearForPPOFunction  # noqa: E402

from trainer_service.verl.rank import head  # noqa: E402

pytestmark = pytest.mark.verl


@pytest.fixture(autouse=True)
def _slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "SLICE", 8)


def learned(function: object, labels: "torch.Tensor", of_entropy: float, dtype: object) -> list["torch.Tensor"]:
    torch.manual_seed(0)
    hidden = torch.randn(2, 15, 12, dtype=dtype, requires_grad=True)
    weights = torch.randn(31, 12, dtype=dtype, requires_grad=True)
    slopes = torch.randn(2, 15).masked_fill(labels == head.UNUSED, 0)
    log_probs, entropies = function(hidden, weights, labels.clamp(min=0) if function is _verl else labels, 0.7)
    loss = (log_probs * slopes).sum()
    if of_entropy:
        loss = loss + of_entropy * entropies[labels != head.UNUSED].sum()
    loss.backward()
    used = labels != head.UNUSED
    return [log_probs.detach()[used], entropies.detach()[used], hidden.grad, weights.grad]


def _verl(*given: object) -> object:
    return FusedLinearForPPOFunction.apply(*given)


def _ours(*given: object) -> object:
    return head.FusedHead()(*given)


@pytest.mark.parametrize("of_entropy", [0.0, 0.3])
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.05)])
@pytest.mark.parametrize("unused", [0, 11])
def test_as_verl(of_entropy: float, precision: str, tolerance: float, unused: int) -> None:
    dtype = getattr(torch, precision)
    labels = torch.randint(31, (2, 15), generator=torch.Generator().manual_seed(1))
    labels[1, :unused] = head.UNUSED
    expected = learned(_verl, labels, of_entropy, dtype)
    for found, wanted in zip(learned(_ours, labels, of_entropy, dtype), expected, strict=True):
        torch.testing.assert_close(found.float(), wanted.float(), rtol=tolerance, atol=tolerance)


def test_a_heads_gradient_in_bfloat16_is_the_sum_of_its_slices_and_not_of_their_roundings() -> None:
    """512 slices that each add alike: in bfloat16 a sum of 256 of them grows no more (8 bits)."""
    hidden = torch.ones(512 * head.SLICE, 4, dtype=torch.bfloat16)
    weights = torch.zeros(2, 4, dtype=torch.bfloat16, requires_grad=True)
    log_probs, _ = head.FusedHead()(hidden, weights, torch.zeros(len(hidden), dtype=torch.long), 1.0)
    log_probs.sum().backward()
    # Of two tokens alike: d log p / d w is (1 - 1/2) of each hidden state, and the other's the opposite.
    assert weights.grad[0].tolist() == [len(hidden) / 2] * 4
    assert weights.grad[1].tolist() == [-len(hidden) / 2] * 4


def test_what_is_unused_is_zero_and_teaches_nothing() -> None:
    hidden, weights = torch.randn(5, 12, requires_grad=True), torch.randn(31, 12, requires_grad=True)
    log_probs, entropies = head.FusedHead()(hidden, weights, torch.full((5,), head.UNUSED), 1.0)
    assert not log_probs.any()
    assert not entropies.any()
    (log_probs.sum() + entropies.sum()).backward()
    assert not hidden.grad.any()
    assert not weights.grad.any()


def test_a_head_that_is_not_trained_has_no_gradient() -> None:
    hidden, weights = torch.randn(5, 12, requires_grad=True), torch.randn(31, 12)
    log_probs, _ = head.FusedHead()(hidden, weights, torch.arange(5), 1.0)
    log_probs.sum().backward()
    assert hidden.grad.any()
    assert weights.grad is None
