"""A sample that the platform failed moves nothing: not the other samples' advantages, and not the loss.

verl fills its place with a row of its own group whose mask is 0 (padding_utils.construct_minimal_padding_template).
Each test compares a batch with such a row to the batch without the sample at all.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

from verl.protocol import DataProto  # noqa: E402
from verl.trainer.config import AlgoConfig  # noqa: E402
from verl.trainer.ppo.core_algos import AdvantageEstimator, agg_loss  # noqa: E402
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories  # noqa: E402

from trainer_service.verl.config import GDPO  # noqa: E402
from trainer_service.verl.driver import own_advantages as estimators  # noqa: E402 - registers it

pytestmark = pytest.mark.verl

LENGTHS = [3, 5, 2, 4, 5, 1, 3]
GROUPS = ["a", "a", "a", "b", "b", "b", "b"]
REWARDS = [1.0, 0.0, 0.5, 0.0, 1.0, 1.0, 0.0]
WIDTH = 5


def batch(padding: int) -> DataProto:
    """Seven samples, the one missing from group "a" replaced by `padding` rows as verl makes them."""
    torch.manual_seed(0)
    rows = len(LENGTHS) + padding
    mask = torch.zeros(rows, WIDTH, dtype=torch.int64)
    rewards = torch.zeros(rows, WIDTH)
    values = torch.randn(len(LENGTHS), WIDTH)
    for row, (length, reward) in enumerate(zip(LENGTHS, REWARDS, strict=True)):
        mask[row, :length] = 1
        rewards[row, length - 1] = reward
    data = DataProto.from_single_dict(
        {
            "response_mask": mask,
            "token_level_rewards": rewards,
            # What a critic says of a padding row is arbitrary, and must not matter.
            "values": torch.cat([values, torch.full((padding, WIDTH), 9.0)]),
            "old_log_probs": torch.zeros(rows, WIDTH),
        }
    )
    data.non_tensor_batch["uid"] = np.array([*GROUPS, *["pad"] * padding], dtype=object)
    return data


def advantages(data: DataProto, estimator: AdvantageEstimator | str) -> "torch.Tensor":
    keys = [f"{uid}_{row}_0" for row, uid in enumerate(data.non_tensor_batch["uid"])]
    greedy = {"a": 0.5, "b": 0.25}
    compute = compute_advantage_for_multi_trajectories
    done = estimators.with_baselines(compute, lambda uid: greedy.get(uid, 0.0))(
        data, keys, adv_estimator=estimator, gamma=1.0, lam=0.95, num_repeat=4, config=AlgoConfig()
    )
    return done.batch["advantages"] * done.batch["response_mask"]


@pytest.mark.parametrize(
    "estimator",
    [
        AdvantageEstimator.GRPO,
        AdvantageEstimator.RLOO,
        AdvantageEstimator.REINFORCE_PLUS_PLUS,
        AdvantageEstimator.GAE,
        AdvantageEstimator.REMAX,
        GDPO,
    ],
)
@pytest.mark.parametrize("padding", [1, 5])
def test_the_others_advantages_do_not_change(estimator: AdvantageEstimator | str, padding: int):
    without = advantages(batch(0), estimator)
    padded = advantages(batch(padding), estimator)
    assert torch.allclose(padded[: len(LENGTHS)], without, atol=1e-6)
    assert torch.count_nonzero(padded[len(LENGTHS) :]) == 0
    assert torch.count_nonzero(without) > 0


@pytest.mark.parametrize("mode", ["seq-mean-token-sum-norm", "seq-mean-token-mean"])
def test_a_loss_of_sequences_keeps_the_weight_of_each(mode: str):
    """Dr. GRPO and GSPO divide by the sequences of a batch, lost ones included: each counts as in a whole one."""
    losses = torch.randn(len(LENGTHS), WIDTH)
    padded = batch(1).batch["response_mask"]
    wild = torch.cat([losses, torch.full((1, WIDTH), 1e6)])
    whole = len(LENGTHS) + 1
    without = agg_loss(losses, padded[:-1], mode, global_batch_size=whole, loss_scale_factor=WIDTH)
    assert torch.isclose(agg_loss(wild, padded, mode, global_batch_size=whole, loss_scale_factor=WIDTH), without)


def test_the_loss_does_not_change():
    losses = torch.randn(len(LENGTHS), WIDTH)
    without = batch(0).batch["response_mask"]
    padded = batch(5).batch["response_mask"]
    wild = torch.cat([losses, torch.full((5, WIDTH), 1e6)])
    assert torch.isclose(
        agg_loss(wild, padded, "token-mean", batch_num_tokens=int(padded.sum())),
        agg_loss(losses, without, "token-mean", batch_num_tokens=int(without.sum())),
    )
