"""GDPO by our rewards and our estimator is GDPO as verl computes it where it is handed each component."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

from verl.trainer.ppo.core_algos import compute_gdpo_outcome_advantage, compute_grpo_outcome_advantage  # noqa: E402

from ratchet_rewards import Component, Measured, Reward, rewards  # noqa: E402
from trainer_service.job.samples.returns import advantages  # noqa: E402
from trainer_service.verl.driver.own_advantages import by_turn, noted, whitened  # noqa: E402

pytestmark = pytest.mark.verl

WEIGHTS = [0.7, 0.3]
REWARD = Reward(components=(Component("tests_passed", WEIGHTS[0]), Component("style", WEIGHTS[1])), combination="gdpo")
GROUPS, SIZE, WIDTH = 3, 4, 5


def test_it_is_verls_own() -> None:
    draw = np.random.default_rng(0)
    passed = draw.integers(0, 2, (GROUPS, SIZE)).astype(float)
    passed[0] = 1.0  # no signal in one group's tests
    style = draw.random((GROUPS, SIZE)).round(2)
    ours = [
        one
        for group in range(GROUPS)
        for one in rewards(
            REWARD,
            [
                Measured({"tests_passed": passed[group, place], "style": style[group, place]}, passed=True)
                for place in range(SIZE)
            ],
            step=1,
        )
    ]
    lengths = draw.integers(2, WIDTH + 1, GROUPS * SIZE)
    mask = (torch.arange(WIDTH) < torch.tensor(lengths)[:, None]).long()
    scores = torch.zeros(GROUPS * SIZE, WIDTH)
    scores[torch.arange(GROUPS * SIZE), torch.tensor(lengths) - 1] = torch.tensor(ours, dtype=torch.float32)
    found, returns = whitened(token_level_rewards=scores, response_mask=mask)

    theirs, _ = compute_gdpo_outcome_advantage(
        token_level_rewards=scores,
        response_mask=mask,
        index=np.repeat(np.arange(GROUPS), SIZE),
        config={"gdpo_reward_keys": ["tests", "style"], "gdpo_reward_weights": WEIGHTS},
        non_tensor_batch={"tests": passed.ravel(), "style": style.ravel()},
        batch={"prompts": torch.zeros(GROUPS * SIZE, 1), "attention_mask": torch.cat([mask[:, :1], mask], dim=1)},
    )
    assert torch.allclose(found, theirs, atol=1e-4)
    assert torch.equal(found, returns)


def test_each_answer_has_an_advantage_of_its_own() -> None:
    batch = {"advantages": torch.full((3, 5), 9.0), "response_mask": torch.tensor([[1, 0, 1, 1, 0]] * 2 + [[0] * 5])}
    data: Any = SimpleNamespace(batch=batch)
    credit = {"a_0_0": [(range(1), 0.5), (range(1, 4), -0.25)], "a_1_0": [(range(1), 0.0), (range(1, 4), 1.5)]}
    computed = by_turn(lambda data, batch_keys, **options: data, lambda key: credit.get(key, ()))
    assert computed(data, ["a_0_0", "a_1_0", "padding_0_0"], gamma=1.0) is data
    assert batch["advantages"].tolist() == [[0.5, 0, -0.25, -0.25, 0], [0, 0, 1.5, 1.5, 0], [0] * 5]
    assert batch["returns"].tolist() == batch["advantages"].tolist()


def test_of_one_answer_each_credit_by_turn_is_grpos() -> None:
    rewards = [0.0, 1.0, 0.25, 1.0]
    scores = torch.tensor(rewards)[:, None]
    for scaled in (True, False):
        theirs, _ = compute_grpo_outcome_advantage(
            scores.clone(), torch.ones(4, 1), np.array(["a"] * 4), norm_adv_by_std_in_grpo=scaled
        )
        ours = advantages([[reward] for reward in rewards], 0.5, scaled=scaled)
        assert torch.allclose(torch.tensor(ours), theirs)


def test_the_advantage_of_each_sample_is_noted() -> None:
    """Its mean over the tokens that are learned from."""
    advantages = torch.tensor([[0.5, 0.5, 9.0], [-1.0, 1.0, -3.0]])
    batch = {"advantages": advantages, "response_mask": torch.tensor([[1, 1, 0], [1, 1, 1]])}

    def compute(data: Any, batch_keys: Any, **options: Any) -> Any:
        return data

    found: dict[str, float] = {}
    data: Any = SimpleNamespace(batch=batch)
    assert noted(compute, found.update)(data, ["a_0_0", "a_1_0"], gamma=1.0) is data
    assert found == {"a_0_0": 0.5, "a_1_0": -1.0}
