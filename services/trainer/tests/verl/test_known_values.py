"""Each algorithm's advantages and losses as numbers that were worked out on paper, by the formulas of the papers.

Advantages are of four completions, of 3, 5, 2 and 4 tokens, in two groups of two, with rewards 1, 0 and 1, 0.5.
Losses are of two completions: three tokens whose ratios are 1, 1.5 and 0.5 with an advantage of 1, and two whose ratios
are 1.5 and 0.5 with one of -1; each token had a probability of one half before. Clips are 0.2 below and 0.3 above.
"""

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

from tensordict import TensorDict  # noqa: E402
from verl.protocol import DataProto  # noqa: E402
from verl.trainer.ppo.core_algos import kl_penalty  # noqa: E402
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories  # noqa: E402
from verl.utils import tensordict_utils as tu  # noqa: E402
from verl.utils.config import omega_conf_to_dataclass  # noqa: E402
from verl.workers.utils.losses import sft_loss, value_loss  # noqa: E402

from ratchet_rewards import Component, Measured, Reward, rewards  # noqa: E402
from trainer_service.domain.spec.algorithms import ALGORITHMS  # noqa: E402
from trainer_service.domain.spec.hyperparameters import Hyperparameters  # noqa: E402
from trainer_service.verl.algorithms import VERL_ALGORITHMS  # noqa: E402
from trainer_service.verl.config import rl_overrides  # noqa: E402
from trainer_service.verl.driver.own_advantages import with_baselines  # noqa: E402
from trainer_service.verl.rank import losses  # noqa: E402
from trainer_service.verl.rank.pairs import CENTERING, REFERENCE, dpo_loss, reward_model_loss  # noqa: E402
from trainer_service.verl.runtime import compose_config  # noqa: E402

from .tensors import nested  # noqa: E402

pytestmark = pytest.mark.verl

LENGTHS, REWARDS, GROUPS = [3, 5, 2, 4], [1.0, 0.0, 1.0, 0.5], ["a", "a", "b", "b"]
GREEDY = {"a": 0.25, "b": 1.0}
ROOT = math.sqrt(0.5)
BUDGET = 7


@pytest.fixture
def configure(make_job: Any, make_complete_spec: Any) -> Any:
    """verl's config of an algorithm, of a batch that is learned from in two updates, as a run's spec makes it."""

    def configured(algorithm: str, **changes: Any) -> Any:
        hyper = {"batch_size": 4, "mini_batch_size": 2, "max_response_tokens": BUDGET, "clip_high": 0.3} | changes
        hyper = {"clip_low": 0.2} | hyper
        if algorithm not in ("remax", "ppo", "reinforce_plus_plus"):
            hyper["group_size"] = 2
        reward = {"reward": Reward("tests_fraction", combination="gdpo")} if changes.pop("gdpo", None) else {}
        hyper.pop("gdpo", None)
        spec = make_complete_spec(algorithm=algorithm, hyperparameters=Hyperparameters(**hyper), **reward)
        return compose_config("ppo_trainer", rl_overrides(make_job(spec), None))

    return configured


def advantages_of(config: Any, rewards: "torch.Tensor", masks: "torch.Tensor", values: Any = None) -> DataProto:
    fields = {"response_mask": masks.long(), "token_level_scores": rewards, "token_level_rewards": rewards.clone()}
    data = DataProto.from_single_dict(fields | ({} if values is None else {"values": values}))
    data.non_tensor_batch["uid"] = np.array(GROUPS[: len(masks)], dtype=object)
    algorithm = config.algorithm
    compute = with_baselines(compute_advantage_for_multi_trajectories, lambda uid: GREEDY[uid])
    return compute(
        data,
        batch_keys=[f"{uid}_{place}_0" for place, uid in enumerate(GROUPS[: len(masks)])],
        adv_estimator=algorithm.adv_estimator,
        gamma=algorithm.gamma,
        lam=algorithm.lam,
        num_repeat=config.actor_rollout_ref.rollout.n,
        norm_adv_by_std_in_grpo=algorithm.norm_adv_by_std_in_grpo,
        config=algorithm,
    ).batch


# The deviation of 1 and 0 is sqrt(1/2), that of 1 and 0.5 half of it: (r - mean) / deviation is sqrt(1/2) either way.
BY_DEVIATION = [ROOT, -ROOT, ROOT, -ROOT]
# Over 14 tokens: the mean is (3 * 1 + 5 * 0 + 2 * 1 + 4 * 0.5) / 14 = 0.5, the variance (3 + 5 + 2) 0.25 / 13.
WHITENED = 0.5 / math.sqrt(2.5 / 13)
ADVANTAGES = {
    "grpo": BY_DEVIATION,  # arXiv:2402.03300, section 4.1.2
    "dapo": BY_DEVIATION,  # arXiv:2503.14476, equation 9
    "gspo": BY_DEVIATION,  # arXiv:2507.18071, equation 4
    "cispo": BY_DEVIATION,  # arXiv:2506.13585, section 3.1
    "dr_grpo": [0.5, -0.5, 0.25, -0.25],  # less the group's mean: arXiv:2503.20783, equation 3
    "rloo": [1.0, -1.0, 0.5, -0.5],  # less the mean of the others: arXiv:2402.14740, section 3.2
    "remax": [0.75, -0.25, 0.0, -0.5],  # less the greedy completion's: arXiv:2310.10505, algorithm 1
    "reinforce_plus_plus": [WHITENED, -WHITENED, WHITENED, 0.0],  # arXiv:2501.03262, equation 8
}


def test_every_algorithm_that_generates_has_its_numbers() -> None:
    assert {*ADVANTAGES, "ppo", "dapo_steps"} == {*VERL_ALGORITHMS} == {*LOSSES}
    assert {*ALGORITHMS} - {*VERL_ALGORITHMS} == {"sft", "dpo", "reward_model"}


@pytest.mark.parametrize("algorithm", ADVANTAGES)
def test_advantages(algorithm: str, configure: Any) -> None:
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).float()
    at_end = torch.zeros_like(mask)
    at_end[torch.arange(4), torch.tensor(LENGTHS) - 1] = torch.tensor(REWARDS)
    found = advantages_of(configure(algorithm), at_end, mask)["advantages"]
    expected = torch.tensor(ADVANTAGES[algorithm])[:, None] * mask
    torch.testing.assert_close(found, expected, atol=2e-6 if algorithm != "grpo" else 1e-4, rtol=1e-4)


def test_a_discount_counts_from_each_token_to_the_end_in_reinforce_plus_plus(configure: Any) -> None:
    """A reward of 1 after three tokens, by 0.5 a token: returns 0.25, 0.5, 1; and of 0. Whitened over all six."""
    at_end, mask = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]), torch.ones(2, 3)
    found = advantages_of(configure("reinforce_plus_plus", gamma=0.5), at_end, mask)
    assert found["returns"].tolist() == [[0.25, 0.5, 1.0], [0.0, 0.0, 0.0]]
    mean = 1.75 / 6
    deviation = math.sqrt(sum((one - mean) ** 2 for one in (0.25, 0.5, 1.0, 0.0, 0.0, 0.0)) / 5)
    expected = [(one - mean) / deviation for one in (0.25, 0.5, 1.0)]
    assert found["advantages"][0].tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("algorithm", ["ppo", "dapo_steps"])
def test_gae(algorithm: str, configure: Any) -> None:
    """arXiv:1506.02438, equation 16, gamma 0.9 and lambda 0.5. With V = 0.5, 0.25, 0.75 and a reward of 1 at the end:
    delta = -0.275, 0.425, 0.25, so A = -0.033125, 0.5375, 0.25. With V = 0.2, 0.4 and no reward: delta = 0.16, -0.4 and
    A = -0.02, -0.4. Returns are A + V. Whitened: mean 0.066875, deviation 0.350193."""
    values = torch.tensor([[0.5, 0.25, 0.75], [0.2, 0.4, 0.0]])
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    config = configure(algorithm, gamma=0.9, gae_lambda=0.5)
    found = advantages_of(config, torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]), mask, values)
    own = mask.bool()
    assert found["returns"][own].tolist() == pytest.approx([0.466875, 0.7875, 1.0, 0.18, 0.0], abs=1e-6)
    whitened = [-0.285557, 1.343902, 0.522926, -0.248078, -1.333193]
    assert found["advantages"][own].tolist() == pytest.approx(whitened, abs=1e-5)


def test_gdpo(configure: Any) -> None:
    """Each component is normalised in its group, then the weighted sum over the batch (arXiv:2601.05242, section 3). In
    group a the tests part (1, 0: +-1 by the deviation of the two) and styles are alike; in b styles part alone.
    With weights 0.75 and 0.25 sums are +-0.75 and +-0.25, two tokens each: the variance is 4 (0.75^2 + 0.25^2) / 7."""
    components = (Component("tests_passed", 0.75), Component("style", 0.25))
    of_groups = [[(1.0, 0.5), (0.0, 0.5)], [(1.0, 1.0), (1.0, 0.0)]]
    reward = Reward(components=components, combination="gdpo")
    summed = [
        one
        for group in of_groups
        for one in rewards(reward, [Measured({"tests_passed": a, "style": b}, passed=True) for a, b in group], step=1)
    ]
    assert summed == pytest.approx([0.75, -0.75, 0.25, -0.25], abs=1e-3)
    at_end = torch.tensor([[0.0, one] for one in summed])
    found = advantages_of(configure("grpo", gdpo=True), at_end, torch.ones(4, 2))["advantages"][:, 0]
    deviation = math.sqrt(2.5 / 7)
    expected = [one / deviation for one in (0.75, -0.75, 0.25, -0.25)]
    assert found.tolist() == pytest.approx(expected, abs=2e-3)


RATIOS = [[1.0, 1.5, 0.5], [1.5, 0.5]]
SIGNS = [1.0, -1.0]
# min(r A, clip(r) A): 1 + 1.3 + 0.5 of the one, -1.5 - 0.8 of the other.
SURROGATE = 2.8 - 2.3
OF_TOKENS = -SURROGATE / 5
LOSSES = {
    **dict.fromkeys(("grpo", "ppo", "rloo", "remax", "reinforce_plus_plus", "dapo", "dapo_steps"), OF_TOKENS),
    "dr_grpo": -SURROGATE / (2 * BUDGET),
    # Geometric means: (1 * 1.5 * 0.5)^(1/3) = 0.9085603, (1.5 * 0.5)^(1/2) = 0.8660254, both within the clips.
    "gspo": -(0.9085603 - 0.8660254) / 2,
    # min(r, 1.3) A log p, where log p = log(r / 2): -0.693147 - 1.3 * 0.287682 - 0.5 * 1.386294 of the one, and
    # 1.3 * 0.287682 + 0.5 * 1.386294 of the other.
    "cispo": -(-1.760281 + 1.067134) / 5,
}


def update(config: Any) -> tuple[float, dict[str, Any]]:
    rows = [torch.tensor(row) for row in RATIOS]
    now = [(row / 2).log() for row in rows]
    # As the engine gives them: each token's is at the place of the token before, and the prompt, of two, has one.
    output = {"log_probs": nested([torch.cat([torch.zeros(1), row, torch.zeros(1)]) for row in now])}
    before = nested([torch.full_like(row, math.log(0.5)) for row in rows])
    data = TensorDict(
        {
            "prompts": nested([torch.zeros(2).long()] * 2),
            "responses": nested([torch.zeros(len(row)).long() for row in rows]),
            "response_mask": nested([torch.ones(len(row)).long() for row in rows]),
            "old_log_probs": before,
            "rollout_log_probs": before,
            "ref_log_prob": nested([row + 0.5 for row in now]),
            "advantages": nested([torch.full_like(row, sign) for row, sign in zip(rows, SIGNS, strict=True)]),
        },
        batch_size=2,
    )
    tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=5, global_batch_size=2)
    loss, metrics = losses.policy_loss(omega_conf_to_dataclass(config.actor_rollout_ref.actor), output, data)
    return float(loss), metrics


@pytest.mark.parametrize("algorithm", LOSSES)
def test_losses(algorithm: str, configure: Any) -> None:
    config = configure(algorithm, **({"clip_low": 1.0} if algorithm == "cispo" else {}))
    loss, metrics = update(config)
    assert loss == pytest.approx(LOSSES[algorithm], abs=1e-6)
    assert metrics[losses.RATIO].aggregate() == pytest.approx((1 + 1.5 + 0.5 + 1.5 + 0.5) / 5)


def test_a_batch_that_is_learned_from_once_is_held_against_the_engine(configure: Any) -> None:
    """Nothing is clipped: the sum over tokens of +-1 is 1, of 5. The ratio is that to the engine's probabilities."""
    loss, metrics = update(configure("grpo", mini_batch_size=4))
    assert loss == pytest.approx(-1 / 5)
    assert metrics[losses.RATIO].aggregate() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [("k1", -0.5), ("k2", 0.125), ("k3", math.exp(0.5) - 0.5 - 1), ("abs", 0.5)],
)
def test_estimators_of_kl(estimator: str, expected: float, configure: Any) -> None:
    """Of a token whose log-prob is 0.5 below the base's (Schulman 2020, "Approximating KL Divergence"): with
    r = p_base / p, -log r, (log r)^2 / 2 and r - 1 - log r. A run's is k3, which is never below 0."""
    token, base = torch.tensor([-1.0]), torch.tensor([-0.5])
    assert float(kl_penalty(token, base, estimator)) == pytest.approx(expected)
    config = configure("grpo", kl_coefficient=0.1)
    assert config.actor_rollout_ref.actor.kl_loss_type == "low_var_kl"
    loss, metrics = update(config)
    k3 = math.exp(0.5) - 0.5 - 1
    assert metrics[losses.KL_FROM_BASE].aggregate() == pytest.approx(k3)
    assert loss == pytest.approx(OF_TOKENS + 0.1 * k3, abs=1e-6)


def test_the_value_loss_of_ppo(configure: Any) -> None:
    """1/2 max((V - R)^2, (clip(V) - R)^2) over tokens, V within 0.5 of what it was. R = 1, 0, 2; V was 0.5, 0.5, 0.5
    and is 0.75, 0.25, 2: 0.0625, 0.0625 and, clipped to 1, 1. The mean of the halves is 1.125 / 6."""
    config = configure("ppo").critic
    assert config.cliprange_value == 0.5
    values = torch.tensor([0.75, 0.25, 2.0])
    data = TensorDict(
        {
            "prompts": nested([torch.zeros(2).long()]),
            "responses": nested([torch.zeros(3).long()]),
            "response_mask": nested([torch.ones(3).long()]),
            "values": nested([torch.full((3,), 0.5)]),
            "returns": nested([torch.tensor([1.0, 0.0, 2.0])]),
        },
        batch_size=1,
    )
    tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=3, global_batch_size=1)
    output = {"values": nested([torch.cat([torch.zeros(1), values, torch.zeros(1)])])}
    loss, _ = value_loss(config, output, data)
    assert float(loss) == pytest.approx(1.125 / 6)


def test_sft() -> None:
    """The mean of -log p over the tokens of all answers: (0.5 + 1 + 1.5) / 3, a token's at the place before it."""
    log_probs = nested([torch.tensor([-9.0, -0.5, -1.0, -9.0]), torch.tensor([-1.5, -9.0])])
    masks = nested([torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1])])
    data = TensorDict({"loss_mask": masks}, batch_size=2)
    tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=3)
    loss, _ = sft_loss(None, {"log_probs": log_probs}, data)
    assert float(loss) == pytest.approx(1.0)


def test_dpo() -> None:
    """arXiv:2305.18290, equation 7, beta 0.5. The better answer has -1 nats and had -2 by the base, the other -3 and
    had -2: the margin is 0.5 (1 + 1) = 1, the loss log(1 + 1/e) = 0.313262."""
    log_probs = nested([torch.tensor([-0.25, -0.75, -9.0]), torch.tensor([-3.0, -9.0])])
    masks = nested([torch.tensor([0, 1, 1]), torch.tensor([0, 1])])
    data = TensorDict({"loss_mask": masks, REFERENCE: torch.tensor([-2.0, -2.0])}, batch_size=2)
    tu.assign_non_tensor(data, dp_size=1, global_batch_size=1)
    loss, metrics = dpo_loss({"log_probs": log_probs}, data, beta=0.5)
    assert float(loss) == pytest.approx(0.313262, abs=1e-6)
    assert metrics["train/pair_margin"].aggregate() == pytest.approx(1.0)


def test_a_reward_model() -> None:
    """Scores 1.5 and 0.5: log(1 + 1/e) + 0.01 (1.5 + 0.5)^2 (arXiv:2203.02155, equation 1; arXiv:2312.09244)."""
    data = TensorDict({"input_ids": nested([torch.tensor([5, 6, 0]), torch.tensor([5, 7])])}, batch_size=2)
    tu.assign_non_tensor(data, dp_size=1, global_batch_size=1)
    values = nested([torch.tensor([9.0, 1.5, 9.0]), torch.tensor([9.0, 0.5])])
    loss, _ = reward_model_loss({"values": values}, data, pad=0)
    assert CENTERING == 0.01
    assert float(loss) == pytest.approx(0.313262 + 0.04, abs=1e-6)
