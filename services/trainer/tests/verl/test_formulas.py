"""Each algorithm, as a run's spec configures verl, against the formula of its paper, on small tensors."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

from omegaconf import DictConfig  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from verl.protocol import DataProto  # noqa: E402
from verl.trainer.ppo.core_algos import get_kl_controller  # noqa: E402
from verl.trainer.ppo.ray_trainer import apply_kl_penalty  # noqa: E402
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch  # noqa: E402
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories  # noqa: E402
from verl.utils import tensordict_utils as tu  # noqa: E402
from verl.utils.config import omega_conf_to_dataclass  # noqa: E402

from trainer_service.domain.spec.hyperparameters import Hyperparameters  # noqa: E402
from trainer_service.verl import metrics as names  # noqa: E402
from trainer_service.verl.config import rl_overrides  # noqa: E402
from trainer_service.verl.driver.own_advantages import with_baselines  # noqa: E402
from trainer_service.verl.rank import losses  # noqa: E402
from trainer_service.verl.runtime import compose_config  # noqa: E402

from .tensors import nested  # noqa: E402

pytestmark = pytest.mark.verl

LENGTHS = [3, 5, 2, 4]
PROMPT = 2
GROUPS = ["a", "a", "b", "b"]
REWARDS = [1.0, 0.0, 1.0, 0.5]
GREEDY = {"a": 0.25, "b": 1.0}
BUDGET = 7
"""max_response_tokens: longer than any completion here."""
MASK = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).float()


@pytest.fixture
def configure(make_job: Any, make_complete_spec: Any) -> Any:
    """verl's config of an algorithm, of a batch that is learned from in two updates: ratios are not 1."""

    def configured(algorithm: str, **changes: Any) -> DictConfig:
        # Wider than GSPO's own, so that some ratios are within it.
        hyper = {
            "batch_size": 4,
            "mini_batch_size": 2,
            "max_response_tokens": BUDGET,
            "clip_low": 0.2,
            "clip_high": 0.3,
        }
        if algorithm not in ("remax", "ppo"):
            hyper["group_size"] = 2
        spec = make_complete_spec(algorithm=algorithm, hyperparameters=Hyperparameters(**hyper | changes))
        return compose_config("ppo_trainer", rl_overrides(make_job(spec), None))

    return configured


def samples() -> DataProto:
    """Four completions of two prompts; their rewards are at their last tokens."""
    torch.manual_seed(1)
    rewards = torch.zeros_like(MASK)
    rewards[torch.arange(4), torch.tensor(LENGTHS) - 1] = torch.tensor(REWARDS)
    before = -torch.rand(4, max(LENGTHS)) * MASK
    data = DataProto.from_single_dict(
        {
            "response_mask": MASK.long(),
            "token_level_scores": rewards,
            "token_level_rewards": rewards.clone(),
            "old_log_probs": before,
            "ref_log_prob": before + 0.3 * torch.randn(4, max(LENGTHS)) * MASK,
        }
    )
    data.non_tensor_batch["uid"] = np.array(GROUPS, dtype=object)
    return data


def advantages(config: DictConfig, data: DataProto, greedy: dict[str, float] | None = None) -> "torch.Tensor":
    compute = compute_advantage_for_multi_trajectories
    if greedy is not None:
        compute = with_baselines(compute, lambda uid: greedy[uid])
    algorithm = config.algorithm
    done = compute(
        data,
        batch_keys=[f"{uid}_{place}_0" for place, uid in enumerate(GROUPS)],
        adv_estimator=algorithm.adv_estimator,
        gamma=algorithm.gamma,
        lam=algorithm.lam,
        num_repeat=config.actor_rollout_ref.rollout.n,
        norm_adv_by_std_in_grpo=algorithm.norm_adv_by_std_in_grpo,
        config=algorithm,
    )
    return done.batch["advantages"]


def over_tokens(of_each: list[float]) -> "torch.Tensor":
    return torch.tensor(of_each)[:, None] * MASK


def test_dr_grpo_subtracts_the_mean_and_divides_by_nothing(configure: Any) -> None:
    found = advantages(configure("dr_grpo"), samples())
    assert torch.allclose(found, over_tokens([0.5, -0.5, 0.25, -0.25]))


@pytest.mark.parametrize("algorithm", ["grpo", "dapo", "gspo", "cispo"])
def test_the_others_divide_by_the_deviation(algorithm: str, configure: Any) -> None:
    found = advantages(configure(algorithm), samples())
    assert torch.allclose(found, over_tokens([0.5**0.5, -(0.5**0.5), 0.5**0.5, -(0.5**0.5)]), atol=1e-4)


def test_remax_subtracts_the_reward_of_the_greedy_completion(configure: Any) -> None:
    found = advantages(configure("remax"), samples(), GREEDY)
    assert torch.allclose(found, over_tokens([0.75, -0.25, 0.0, -0.5]))


def test_steps_are_gains_by_gae_over_the_policys_own_tokens(configure: Any) -> None:
    """delta_t = r_t + gamma V_t' - V_t and A_t = delta_t + gamma lambda A_t' (arXiv:1506.02438, equation 16), where t'
    is the next token of the policy, whatever the environment said between; whitened over all of them."""
    gamma, lam = 0.9, 0.8
    config = configure("dapo_steps", gamma=gamma, gae_lambda=lam)
    masks = torch.tensor([[1, 1, 0, 0, 1], [1, 0, 1, 0, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    rewards = torch.tensor([[0, 0.25, 0, 0, 0.5], [0.5, 0, -0.5, 0, 1], [0, 0, 0.75, 0, 0], [0, 0, 0, 0, 0.1]])
    torch.manual_seed(3)
    values = torch.rand(4, 5)
    data = DataProto.from_single_dict({"response_mask": masks, "token_level_rewards": rewards, "values": values})
    data.non_tensor_batch["uid"] = np.array(GROUPS, dtype=object)
    found = advantages(config, data)

    expected = torch.zeros(4, 5)
    for row in range(4):
        next_value = next_advantage = 0.0
        for place in reversed([place for place in range(5) if masks[row, place]]):
            delta = float(rewards[row, place]) + gamma * next_value - float(values[row, place])
            next_advantage = delta + gamma * lam * next_advantage
            next_value = float(values[row, place])
            expected[row, place] = next_advantage
    own = masks.bool()
    mean, deviation = expected[own].mean(), expected[own].std()
    assert torch.allclose(found[own], (expected[own] - mean) / deviation, atol=1e-4)
    assert config.algorithm.filter_groups.enable
    assert config.critic.optim.lr == 1e-3


def test_a_penalty_in_the_reward_is_taken_off_each_token(configure: Any) -> None:
    """r_t - beta (log pi(a_t) - log pi_base(a_t)), in what ReMax sums up from each token to the end."""
    config, data = configure("remax", kl_coefficient=0.1, kl_in_reward=True), samples()
    assert config.algorithm.use_kl_in_reward
    assert not config.actor_rollout_ref.actor.use_kl_loss
    of_tokens = data.batch["old_log_probs"] - data.batch["ref_log_prob"]
    controller = get_kl_controller(config.algorithm.kl_ctrl)
    data, metrics = apply_kl_penalty(data, controller, config.algorithm.kl_penalty)
    expected = data.batch["token_level_scores"] - 0.1 * of_tokens * MASK
    assert torch.allclose(data.batch["token_level_rewards"], expected)
    rest = torch.stack([expected[:, place:].sum(-1) for place in range(max(LENGTHS))], dim=1)
    baseline = torch.tensor([GREEDY[uid] for uid in GROUPS])
    assert torch.allclose(advantages(config, data, GREEDY), (rest - baseline[:, None]) * MASK, atol=1e-6)
    assert metrics["actor/reward_kl_penalty"] == pytest.approx(float((of_tokens.sum(-1) / MASK.sum(-1)).mean()))


# Losses.


def unpadded(rows: "torch.Tensor") -> "torch.Tensor":
    return nested([row[:length] for row, length in zip(rows, LENGTHS, strict=True)])


class Update:
    """One gradient update: log-probs now and before it, and advantages, (sequences, tokens)."""

    def __init__(self) -> None:
        torch.manual_seed(2)
        self.before = -torch.rand(4, max(LENGTHS)) - 0.5
        self.now = self.before + 0.4 * torch.randn(4, max(LENGTHS))
        self.base = self.before + 0.2
        self.engine = self.before
        """By which the samples were made."""
        self.weights: torch.Tensor | None = None
        """Of the samples, where they come with the batch."""
        self.advantages = over_tokens([1.0, -0.5, 0.25, -1.0])

    def by_verl(self, config: DictConfig) -> tuple["torch.Tensor", "torch.Tensor", dict[str, Any]]:
        """The loss, its gradient by the log-probs, and metrics."""
        log_probs = self.now.clone().requires_grad_()
        # As the engine gives them: each token's is at the place of the token before, and the prompt has some, too.
        rows = [
            torch.cat([torch.zeros(PROMPT - 1), row[:length], torch.zeros(1)])
            for row, length in zip(log_probs, LENGTHS, strict=True)
        ]
        output = {"log_probs": nested(rows)}
        data = TensorDict(
            {
                "prompts": nested([torch.zeros(PROMPT).long()] * 4),
                "responses": unpadded(torch.zeros(4, max(LENGTHS)).long()),
                "response_mask": unpadded(MASK.long()),
                "old_log_probs": unpadded(self.before),
                "ref_log_prob": unpadded(self.base),
                "advantages": unpadded(self.advantages),
            },
            batch_size=4,
        )
        data["rollout_log_probs"] = unpadded(self.engine)
        if self.weights is not None:
            data["rollout_is_weights"] = unpadded(self.weights)
        tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=sum(LENGTHS), global_batch_size=4)
        actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
        loss, metrics = losses.policy_loss(actor, output, data)
        (gradient,) = torch.autograd.grad(loss, log_probs)
        return loss.detach(), gradient, metrics

    def by_hand(self, objective: Any) -> tuple["torch.Tensor", "torch.Tensor"]:
        log_probs = self.now.clone().requires_grad_()
        loss = -objective(log_probs)
        (gradient,) = torch.autograd.grad(loss, log_probs)
        return loss.detach(), gradient

    def surrogate(self, ratio: "torch.Tensor", low: float = 0.2, high: float = 0.3) -> "torch.Tensor":
        """PPO's: min(r A, clip(r) A)."""
        advantages = self.advantages if ratio.dim() == 2 else self.advantages[:, 0]
        return torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)

    def token_ratio(self, log_probs: "torch.Tensor") -> "torch.Tensor":
        return (log_probs - self.before).exp()


def assert_is(update: Update, config: DictConfig, objective: Any) -> None:
    loss, gradient, _ = update.by_verl(config)
    expected, by_hand = update.by_hand(objective)
    assert by_hand.abs().max() > 0
    assert torch.allclose(gradient, by_hand, atol=1e-6)
    assert torch.allclose(loss, expected, atol=1e-6)


def test_dr_grpo_divides_the_sum_over_tokens_by_a_constant(configure: Any) -> None:
    """1/G sum_i sum_t min(...), by the tokens that a completion may have (arXiv:2503.20783)."""
    update = Update()

    def objective(log_probs: "torch.Tensor") -> "torch.Tensor":
        return (update.surrogate(update.token_ratio(log_probs)) * MASK).sum() / (4 * BUDGET)

    assert_is(update, configure("dr_grpo"), objective)


@pytest.mark.parametrize("algorithm", ["dapo", "grpo", "remax", "dapo_steps"])
def test_dapo_counts_every_token_the_same(algorithm: str, configure: Any) -> None:
    """1 / sum_i |o_i| sum_i sum_t min(...) (arXiv:2503.14476, equation 8), with a higher upper clip."""
    update = Update()

    def objective(log_probs: "torch.Tensor") -> "torch.Tensor":
        return (update.surrogate(update.token_ratio(log_probs)) * MASK).sum() / sum(LENGTHS)

    assert_is(update, configure(algorithm), objective)


def test_gspo_clips_the_ratio_of_the_whole_sequence(configure: Any) -> None:
    """1/G sum_i min(s_i A_i, clip(s_i) A_i), where s_i is the geometric mean of the ratios of its tokens
    (arXiv:2507.18071, equations 5 and 7)."""
    update = Update()

    def sequence_ratio(log_probs: "torch.Tensor") -> "torch.Tensor":
        return (((log_probs - update.before) * MASK).sum(-1) / torch.tensor(LENGTHS)).exp()

    def objective(log_probs: "torch.Tensor") -> "torch.Tensor":
        return update.surrogate(sequence_ratio(log_probs), 0.05, 0.16).mean()

    config = configure("gspo", clip_low=0.05, clip_high=0.16)
    assert_is(update, config, objective)
    _, gradient, _ = update.by_verl(config)
    clipped = gradient.abs().sum(-1) == 0
    assert clipped.tolist() == [False, False, False, True]


def test_cispo_clips_the_weight_of_a_token_and_not_its_gradient(configure: Any) -> None:
    """1 / sum_i |o_i| sum_i sum_t sg(clip(r)) A log pi, without a lower bound (arXiv:2506.13585, equations 4 and 5)."""
    update = Update()

    def objective(log_probs: "torch.Tensor") -> "torch.Tensor":
        weight = update.token_ratio(log_probs).clamp(max=1.3).detach()
        return (weight * update.advantages * log_probs * MASK).sum() / sum(LENGTHS)

    assert_is(update, configure("cispo", clip_low=1.0), objective)
    _, gradient, _ = update.by_verl(configure("cispo", clip_low=1.0))
    assert torch.count_nonzero(gradient) == sum(LENGTHS)  # of each token, clipped or not


def weight(update: Update, now: "torch.Tensor") -> "torch.Tensor":
    """Of each token of a sample that older weights have made, `update.engine`."""
    return (now - update.engine).exp().clamp(max=2.0)


def test_stale_samples_weigh_what_they_are_likelier_now(configure: Any) -> None:
    """1 / sum_i |o_i| sum_i sum_t sg(min(pi / pi_engine, 2)) A grad log pi: truncated importance sampling. A batch
    is learned from once, so that nothing is clipped (Yao et al. 2025; arXiv:2503.14476, equation 8, with r = 1)."""
    update = Update()
    update.engine = update.now - 0.8 * torch.randn(4, max(LENGTHS)).abs()

    def objective(log_probs: "torch.Tensor") -> "torch.Tensor":
        ratio = (log_probs - log_probs.detach()).exp()
        return (weight(update, update.now) * update.advantages * ratio * MASK).sum() / sum(LENGTHS)

    assert (weight(update, update.now) == 2.0).any()
    assert_is(update, configure("grpo", max_staleness=1, mini_batch_size=4), objective)


def test_stale_samples_of_several_updates_are_clipped_around_the_weights_before_them(configure: Any) -> None:
    """1 / sum_i |o_i| sum_i sum_t min(pi_old / pi_engine, 2) min(r A, clip(r) A), r = pi / pi_old: the two ratios of
    decoupled PPO (arXiv:2110.00641, section 3)."""
    update, config = Update(), configure("grpo", max_staleness=1)
    update.engine = update.before - 0.8 * torch.randn(4, max(LENGTHS)).abs()
    batch = DataProto.from_single_dict(
        {"old_log_probs": update.before, "rollout_log_probs": update.engine, "response_mask": MASK.long()}
    )
    batch, metrics = compute_rollout_correction_and_add_to_batch(batch, config.algorithm.rollout_correction)
    update.weights = batch.batch["rollout_is_weights"]

    def objective(log_probs: "torch.Tensor") -> "torch.Tensor":
        surrogate = update.surrogate(update.token_ratio(log_probs))
        return (weight(update, update.before) * surrogate * MASK).sum() / sum(LENGTHS)

    assert_is(update, config, objective)
    expected = (weight(update, update.before) * MASK).sum() / sum(LENGTHS)
    assert names.rename(metrics, names.RL_NAMES)["importance_mean"] == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("algorithm", ["grpo", "dr_grpo", "gspo"])
def test_kl_is_measured_in_nats_a_token_however_the_loss_is_averaged(algorithm: str, configure: Any) -> None:
    update = Update()
    _, _, metrics = update.by_verl(configure(algorithm, kl_coefficient=0.1))
    gap = update.base - update.now
    expected = ((gap.exp() - gap - 1) * MASK).sum() / sum(LENGTHS)
    assert metrics["actor/kl_loss"].aggregate() == pytest.approx(float(expected), rel=1e-5)
