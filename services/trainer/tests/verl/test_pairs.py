"""The losses of DPO and of a reward model against their formulas, written out for each pair; and passes that keep pairs
whole."""

import math

import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

import verl.workers.engine.utils as engine_utils  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from verl.utils import tensordict_utils as tu  # noqa: E402

from trainer_service.verl.rank.pairs import (  # noqa: E402
    CENTERING,
    REFERENCE,
    answer_log_probs,
    conversation_scores,
    dpo_loss,
    reward_model_loss,
)
from trainer_service.verl.rank.patches import padded_passes  # noqa: E402

from .tensors import nested  # noqa: E402

pytestmark = pytest.mark.verl

BETA = 0.3
PROMPT = 3
ANSWERS = [4, 2, 1, 5, 3, 3]
"""Tokens of each row: three pairs."""


def drawn(requires_grad: bool = False) -> tuple[list["torch.Tensor"], TensorDict]:
    """Log-probs of the token after each, and the rest of a pass."""
    torch.manual_seed(0)
    log_probs = [-torch.rand(PROMPT + length) for length in ANSWERS]
    for row in log_probs:
        row.requires_grad_(requires_grad)
    masks = [torch.tensor([0] * PROMPT + [1] * length) for length in ANSWERS]
    data = TensorDict({"loss_mask": nested(masks), REFERENCE: -2 * torch.rand(len(ANSWERS))}, batch_size=len(ANSWERS))
    tu.assign_non_tensor(data, dp_size=1, global_batch_size=len(ANSWERS) // 2)
    return log_probs, data


def of_answers(log_probs: list["torch.Tensor"]) -> list[float]:
    """That of an answer's first token stands at the prompt's last; at the row's last stands that of no token."""
    return [float(row[PROMPT - 1 : PROMPT - 1 + length].sum()) for row, length in zip(log_probs, ANSWERS, strict=True)]


def test_an_answers_log_prob_is_that_of_its_tokens() -> None:
    log_probs, data = drawn()
    assert answer_log_probs(nested(log_probs), data["loss_mask"]).tolist() == pytest.approx(of_answers(log_probs))


def test_the_loss_is_equation_7() -> None:
    log_probs, data = drawn()
    policy, reference = of_answers(log_probs), data[REFERENCE].tolist()
    losses, margins = [], []
    for better in (0, 2, 4):
        chosen, rejected = (policy[row] - reference[row] for row in (better, better + 1))
        margins.append(BETA * chosen - BETA * rejected)
        losses.append(-math.log(1 / (1 + math.exp(-margins[-1]))))
    loss, metrics = dpo_loss({"log_probs": nested(log_probs)}, data, beta=BETA)
    assert float(loss) == pytest.approx(sum(losses) / 3)
    found = {name: one.aggregate() for name, one in metrics.items()}
    assert found["train/pair_margin"] == pytest.approx(sum(margins) / 3, abs=1e-6)
    assert found["train/pair_accuracy"] == pytest.approx(sum(margin > 0 for margin in margins) / 3)
    assert found["train/chosen_logprob"] == pytest.approx(sum(policy[0::2]) / 3)
    assert found["train/rejected_logprob"] == pytest.approx(sum(policy[1::2]) / 3)
    assert 0 < found["train/pair_accuracy"] < 1


def test_the_gradient_is_that_of_the_paper() -> None:
    """Section 4, "What does the DPO update do?": each pair weighs by how wrong its implicit rewards are."""
    log_probs, data = drawn(requires_grad=True)
    loss, _ = dpo_loss({"log_probs": nested(log_probs)}, data, beta=BETA)
    loss.backward()
    policy, reference = of_answers(log_probs), data[REFERENCE].tolist()
    for better in (0, 2, 4):
        margin = BETA * (policy[better] - reference[better] - policy[better + 1] + reference[better + 1])
        weight = BETA / (1 + math.exp(margin)) / 3
        for row, sign in ((better, -1), (better + 1, 1)):
            learned = slice(PROMPT - 1, PROMPT - 1 + ANSWERS[row])
            assert log_probs[row].grad[learned].tolist() == pytest.approx([sign * weight] * ANSWERS[row])
            assert float(log_probs[row].grad.abs().sum()) == pytest.approx(weight * ANSWERS[row])


def test_passes_and_ranks_add_up_to_the_mean_over_the_batch() -> None:
    log_probs, data = drawn()
    whole, of_whole = dpo_loss({"log_probs": nested(log_probs)}, data, beta=BETA)
    tu.assign_non_tensor(data, dp_size=2)
    parts = [
        dpo_loss({"log_probs": nested(log_probs[rows])}, tu.index_select_tensor_dict(data, places), beta=BETA)
        for rows, places in ((slice(0, 2), [0, 1]), (slice(2, 6), [2, 3, 4, 5]))
    ]
    assert float(sum(loss for loss, _ in parts)) / 2 == pytest.approx(float(whole))  # verl takes the mean of ranks
    margin = sum(metrics["train/pair_margin"].aggregate() for _, metrics in parts) / 2
    assert margin == pytest.approx(of_whole["train/pair_margin"].aggregate(), abs=1e-6)


PAD = 0


def scored(requires_grad: bool = False) -> tuple[list["torch.Tensor"], TensorDict]:
    """A value for each token, and the rest of a pass. The second row ends with the token for padding."""
    torch.manual_seed(0)
    values = [torch.randn(PROMPT + length).requires_grad_(requires_grad) for length in ANSWERS]
    tokens = [torch.randint(1, 9, (PROMPT + length,)) for length in ANSWERS]
    tokens[1][-1] = PAD
    data = TensorDict({"input_ids": nested(tokens)}, batch_size=len(ANSWERS))
    tu.assign_non_tensor(data, dp_size=1, global_batch_size=len(ANSWERS) // 2)
    return values, data


def of_conversations(values: list["torch.Tensor"]) -> list[float]:
    return [float(row[-2 if place == 1 else -1]) for place, row in enumerate(values)]


def test_a_conversations_score_is_that_of_its_last_token_but_padding() -> None:
    values, data = scored()
    assert conversation_scores(nested(values), data["input_ids"], PAD).tolist() == of_conversations(values)


def test_a_reward_models_loss_is_bradley_and_terrys_with_scores_around_0() -> None:
    values, data = scored(requires_grad=True)
    found = of_conversations(values)
    pairs = list(zip(found[0::2], found[1::2], strict=True))
    expected = [-math.log(1 / (1 + math.exp(b - a))) + CENTERING * (a + b) ** 2 for a, b in pairs]
    loss, metrics = reward_model_loss({"values": nested(values)}, data, PAD)
    assert float(loss.detach()) == pytest.approx(sum(expected) / 3, abs=1e-6)
    measured = {name: one.aggregate() for name, one in metrics.items()}
    assert measured["train/pair_margin"] == pytest.approx(sum(a - b for a, b in pairs) / 3, abs=1e-6)
    assert measured["train/pair_accuracy"] == pytest.approx(sum(a > b for a, b in pairs) / 3)
    assert measured["train/chosen_score"] == pytest.approx(sum(found[0::2]) / 3)
    assert measured["train/rejected_score"] == pytest.approx(sum(found[1::2]) / 3)
    loss.backward()
    for place, row in enumerate(values):
        learned = [index for index, one in enumerate(row.grad.tolist()) if one]
        assert learned == [len(row) - (2 if place == 1 else 1)]


def test_parts_of_a_reward_models_batch_add_up() -> None:
    values, data = scored()
    whole, _ = reward_model_loss({"values": nested(values)}, data, PAD)
    tu.assign_non_tensor(data, dp_size=2)
    parts = [
        reward_model_loss({"values": nested(values[rows])}, tu.index_select_tensor_dict(data, places), PAD)[0]
        for rows, places in ((slice(0, 2), [0, 1]), (slice(2, 6), [2, 3, 4, 5]))
    ]
    assert float(sum(parts)) / 2 == pytest.approx(float(whole))


def test_no_pass_parts_a_pair() -> None:
    padded_passes.apply()
    lengths = [9, 2, 3, 3, 2, 8, 4, 4]
    batch = TensorDict({"input_ids": nested([torch.zeros(length) for length in lengths])}, batch_size=len(lengths))
    tu.assign_non_tensor(batch, use_remove_padding=False, max_token_len_per_gpu=20, force_group_size=2)
    some, groups = engine_utils.prepare_micro_batches(batch)
    assert sorted(row for group in groups for row in group) == list(range(len(lengths)))
    assert len(groups) > 1
    for group, one in zip(groups, some, strict=True):
        assert all(group[place + 1] == group[place] + 1 and group[place] % 2 == 0 for place in range(0, len(group), 2))
        assert max(lengths[row] for row in group) * len(group) <= 20
        assert one["input_ids"].offsets().diff().tolist() == [lengths[row] for row in group]
