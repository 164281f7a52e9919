"""A batch that is learned from once gives the gradients that it gives with a pass for old log-probs."""

from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

from tensordict import TensorDict  # noqa: E402
from verl.trainer.config import RolloutCorrectionConfig  # noqa: E402
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights  # noqa: E402
from verl.utils import tensordict_utils as tu  # noqa: E402
from verl.utils.metric import Metric  # noqa: E402
from verl.workers.config import FSDPActorConfig, PolicyLossConfig  # noqa: E402
from verl.workers.utils.losses import ppo_loss  # noqa: E402

from trainer_service.verl.rank import losses  # noqa: E402
from trainer_service.verl.rank.patches import without_signal  # noqa: E402

from .tensors import nested  # noqa: E402

pytestmark = pytest.mark.verl

PROMPTS = [3, 2, 4, 3]
RESPONSES = [5, 2, 1, 4]
LOST = 2
"""A row whose mask is 0, as verl makes for a sample that the platform lost."""
VOCABULARY, HIDDEN = 11, 6


@dataclass
class Batch:
    """Of one pass, with the head that its log-probs come from."""

    head: "torch.Tensor"
    data: TensorDict
    states: list["torch.Tensor"]
    labels: list["torch.Tensor"]

    @classmethod
    def drawn(cls) -> "Batch":
        torch.manual_seed(0)
        lengths = [prompt + response for prompt, response in zip(PROMPTS, RESPONSES, strict=True)]
        masks = [
            torch.zeros(length, dtype=torch.int64) if row == LOST else torch.ones(length, dtype=torch.int64)
            for row, length in enumerate(RESPONSES)
        ]
        data = TensorDict(
            {
                "prompts": nested([torch.zeros(length, dtype=torch.int64) for length in PROMPTS]),
                "responses": nested([torch.zeros(length, dtype=torch.int64) for length in RESPONSES]),
                "response_mask": nested(masks),
                "advantages": nested([torch.randn(length) for length in RESPONSES]),
            },
            batch_size=len(PROMPTS),
        )
        tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=sum(int(mask.sum()) for mask in masks))
        tu.assign_non_tensor(data, global_batch_size=len(PROMPTS))
        return cls(
            torch.randn(HIDDEN, VOCABULARY),
            data,
            [torch.randn(length, HIDDEN) for length in lengths],
            [torch.randint(VOCABULARY, (length,)) for length in lengths],
        )

    def output(self, head: "torch.Tensor") -> dict[str, "torch.Tensor"]:
        """As the engine makes it: log-probs and entropy of the token after each."""
        every = [(states @ head).log_softmax(-1) for states in self.states]
        chosen = [row.gather(-1, labels[:, None]).squeeze(-1) for row, labels in zip(every, self.labels, strict=True)]
        return {"log_probs": nested(chosen), "entropy": nested([-(row.exp() * row).sum(-1) for row in every])}

    def own(self) -> list["torch.Tensor"]:
        """Log-probs of the responses, by a pass of their own."""
        with torch.no_grad():
            rows = self.output(self.head)["log_probs"].unbind()
        return [row[-1 - length : -1] for row, length in zip(rows, RESPONSES, strict=True)]

    def gradient(self, loss: Any, config: Any, data: TensorDict) -> tuple["torch.Tensor", dict[str, Any]]:
        head = self.head.clone().requires_grad_()
        value, metrics = loss(config, self.output(head), data)
        value.backward()
        return head.grad, metrics


def config(entropy: float = 0.0, mode: str = "vanilla", **correction: Any) -> FSDPActorConfig:
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=2,
        use_dynamic_bsz=True,
        entropy_coeff=entropy,
        clip_ratio_low=0.2,
        clip_ratio_high=0.28,
        policy_loss=PolicyLossConfig(loss_mode=mode, rollout_correction=RolloutCorrectionConfig(**correction)),
    )


@pytest.mark.parametrize("level", [None, "token", "sequence"])
@pytest.mark.parametrize("entropy", [0.0, 0.01])
def test_gradients_are_those_with_a_pass_of_its_own(level: str | None, entropy: float) -> None:
    batch, own = Batch.drawn(), Batch.drawn().own()
    engine = [row + 0.5 * torch.randn(len(row)) for row in own]  # far off, as in bfloat16 at its worst

    separate = batch.data.copy()
    separate["old_log_probs"] = nested(own)
    if level:
        ratio = nested([a - b for a, b in zip(own, engine, strict=True)]).to_padded_tensor(0.0)
        weights, _ = compute_rollout_correction_weights(
            ratio, batch.data["response_mask"].to_padded_tensor(0), level, 2.0
        )
        separate["rollout_is_weights"] = nested([row[:length] for row, length in zip(weights, RESPONSES, strict=True)])
    expected, _ = batch.gradient(ppo_loss, config(entropy), separate)

    once = batch.data.copy()
    once["rollout_log_probs"] = nested(engine)
    correction = {"rollout_is": level, "rollout_is_threshold": 2.0}
    found, metrics = batch.gradient(losses.policy_loss, config(entropy, bypass_mode=True, **correction), once)
    assert expected.abs().max() > 0
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-7)
    assert {losses.ENTROPY, losses.GAP_MEAN, losses.GAP_MAX, "actor/pg_clipfrac"} <= set(metrics)
    assert (losses.IMPORTANCE in metrics) is (level is not None)
    if level == "token":
        ratios = torch.cat([a - b for row, (a, b) in enumerate(zip(own, engine, strict=True)) if row != LOST]).exp()
        found = {name: metrics[name].aggregate() for name in (losses.IMPORTANCE, losses.IMPORTANCE_CLIPPED)}
        assert found[losses.IMPORTANCE] == pytest.approx(float(ratios.clamp(max=2).mean()), rel=1e-4)
        assert found[losses.IMPORTANCE_CLIPPED] == pytest.approx(float((ratios > 2).float().mean()), rel=1e-4)
    assert "old_log_probs" not in once


def test_every_token_is_compared_with_the_engines() -> None:
    batch, own = Batch.drawn(), Batch.drawn().own()
    batch.data["rollout_log_probs"] = nested([row if index == LOST else row - 0.1 for index, row in enumerate(own)])
    _, metrics = batch.gradient(losses.policy_loss, config(bypass_mode=True), batch.data)
    gaps = torch.cat([row.exp() * (1 - 2.718281828**-0.1) for index, row in enumerate(own) if index != LOST])
    found = {name: value.aggregate() for name, value in metrics.items() if isinstance(value, Metric)}
    assert found[losses.GAP_MEAN] == pytest.approx(float(gaps.mean()), rel=1e-4)
    assert found[losses.GAP_MAX] == pytest.approx(float(gaps.max()), rel=1e-4)
    assert found[losses.KL] == pytest.approx(-0.1, rel=1e-4)
    assert found[losses.ENTROPY] > 0


@pytest.mark.parametrize("mode", sorted(without_signal.LOSSES))
def test_without_advantages_there_is_no_gradient(mode: str) -> None:
    batch, own = Batch.drawn(), Batch.drawn().own()
    batch.data["old_log_probs"] = nested([row - 0.3 for row in own])
    assert batch.gradient(losses.policy_loss, config(mode=mode), batch.data)[0].abs().max() > 0
    batch.data["advantages"] = nested([torch.zeros(length) for length in RESPONSES])
    assert not batch.gradient(losses.policy_loss, config(mode=mode), batch.data)[0].any()


def test_several_updates_are_verls_own() -> None:
    batch, own = Batch.drawn(), Batch.drawn().own()
    batch.data["old_log_probs"] = nested([row - 0.3 for row in own])
    expected, _ = batch.gradient(ppo_loss, config(), batch.data)
    found, _ = batch.gradient(losses.policy_loss, config(), batch.data)
    assert torch.equal(found, expected)
