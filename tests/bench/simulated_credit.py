"""Credit by turn beside credit by episode, on a task of several turns whose gradient is known.

    python -m tests.bench.simulated_credit [GROUPS]

A program has 3 failing tests. In each of six turns at most the policy fixes (one test fewer fails, in 60 %), breaks
(one more, in 50 %) or looks; the episode ends when none fails. The policy is a softmax over the three for each number
of failing tests. It is rewarded for passing at the end (as `tools` and `harness` are), or for the tests that each
answer gains (as `edits` is). Said is how many groups credit by episode needs for as clear a gradient as one group
gives with credit by turn; and how often the policy passes after 20 updates by one group each.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_service.job.samples.returns import advantages

TURNS, ACTIONS, FAILING, MOST, SIZE = 6, 3, 3, 5, 8
UPDATES, RATE = 20, 1.0
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Played:
    states: Sequence[int]
    """Failing tests before each turn, and after the last."""
    actions: Sequence[int]

    def rewards(self, by_tests: bool) -> list[float]:
        """Of each turn. `by_tests`: the share of the first failing tests that it gains."""
        worth = [max(0.0, 1 - left / FAILING) if by_tests else float(left == 0) for left in self.states]
        return [after - before for before, after in zip([0.0, *worth[1:-1]], worth[1:], strict=True)]


Credit = Callable[[list[list[float]]], list[list[float]]]


def by_episode(rewards: list[list[float]]) -> list[list[float]]:
    """GRPO's: episodes with one reward each."""
    whole = advantages([[sum(some)] for some in rewards], 1.0, scaled=True)
    return [own * len(some) for own, some in zip(whole, rewards, strict=True)]


def by_turn(discount: float) -> Credit:
    return lambda rewards: advantages(rewards, discount, scaled=True)


def play(policy: Array, draw: np.random.Generator) -> Played:
    states, actions = [FAILING], list[int]()
    while states[-1] and len(actions) < TURNS:
        left = states[-1]
        actions.append(int((draw.random() > policy[left].cumsum()[:-1]).sum()))
        change = {0: -int(draw.random() < 0.6), 1: int(draw.random() < 0.5), 2: 0}[actions[-1]]
        states.append(min(MOST, left + change))
    return Played(states, actions)


def softmax(logits: Array) -> Array:
    powers = np.exp(logits)
    return np.asarray(powers / powers.sum(1, keepdims=True))


def gradient(policy: Array, group: Sequence[Played], weights: list[list[float]]) -> Array:
    found = np.zeros_like(policy)
    for one, own in zip(group, weights, strict=True):
        for state, action, weight in zip(one.states, one.actions, own, strict=False):
            found[state] -= weight * policy[state]
            found[state, action] += weight
    return found


def clearness(gradients: Sequence[Array], true: Array) -> float:
    """Squared length of the mean gradient along the true one, by the variance: that of a mean over n groups is n times
    as much."""
    rows = np.array([one.ravel() for one in gradients])
    return float((rows.mean(0) @ true) ** 2 / rows.var(0).sum())


def compared(credit: Credit, by_tests: bool, groups: int, seed: int) -> float:
    """How many times as clear the gradients by `credit` are as those by episode."""
    draw, policy = np.random.default_rng(seed), softmax(np.zeros((MOST + 1, ACTIONS)))
    made = [[play(policy, draw) for _ in range(SIZE)] for _ in range(groups)]
    rewards = [[one.rewards(by_tests) for one in group] for group in made]
    mean = fmean(sum(some) for group in rewards for some in group)
    plain = [[[sum(some) - mean] * len(some) for some in group] for group in rewards]
    true = np.mean([gradient(policy, *one) for one in zip(made, plain, strict=True)], axis=0).ravel()
    true /= np.linalg.norm(true)

    def clear(way: Credit) -> float:
        return clearness([gradient(policy, group, way(some)) for group, some in zip(made, rewards, strict=True)], true)

    return clear(credit) / clear(by_episode)


def learned(credit: Credit, by_tests: bool, seed: int) -> float:
    """Share of 100 episodes that pass after the updates."""
    draw, logits = np.random.default_rng(seed), np.zeros((MOST + 1, ACTIONS))
    for _ in range(UPDATES):
        group = [play(softmax(logits), draw) for _ in range(SIZE)]
        step = gradient(softmax(logits), group, credit([one.rewards(by_tests) for one in group]))
        logits += RATE * step / SIZE
    return fmean(play(softmax(logits), draw).states[-1] == 0 for _ in range(100))


def main() -> None:
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    ways: dict[str, Credit] = {"by episode": by_episode} | {f"by turn, {at:g}": by_turn(at) for at in (1.0, 0.9, 0.7)}
    for by_tests in (False, True):
        print("rewarded for the tests that each answer gains" if by_tests else "rewarded for passing at the end")
        for name, way in ways.items():
            print(
                f"  {name:14} clearer by {_said([compared(way, by_tests, groups, seed) for seed in range(10)])},",
                end="",
            )
            print(f" passes {_said([learned(way, by_tests, seed) for seed in range(200)])}", flush=True)


def _said(values: Sequence[Any]) -> str:
    """A mean with its interval of 95 %."""
    mean, half = fmean(values), 1.96 * stdev(values) / len(values) ** 0.5
    return f"{mean:.3f} ({mean - half:.3f} to {mean + half:.3f})"


if __name__ == "__main__":
    main()
