"""Credit by turn: an advantage for each answer of an episode."""

from collections.abc import Sequence
from statistics import fmean, stdev

EPSILON = 1e-6
"""verl's, beside a deviation."""


def advantages(episodes: Sequence[Sequence[float]], discount: float, *, scaled: bool) -> list[list[float]]:
    """The advantage of each answer of the episodes of a group. `episodes`: the rewards of their answers, in order.

        G[j][t] = r[j][t] + discount * G[j][t + 1]                          the return from answer t of episode j on
        b[t]    = mean of G[j][t] over the episodes that have an answer t   where one alone has it: b[t - 1]
        A[j][t] = (G[j][t] - b[t]) / (deviation of all G + 1e-6)            `scaled`; else undivided

    The return from an action on, less a baseline that the action has no part in: REINFORCE with baseline (Sutton and
    Barto, Reinforcement Learning, 2nd edition, section 13.4). The returns are those of Kevin (arXiv:2507.11948), the
    group and its deviation those of GRPO (arXiv:2402.03300, section 4.1): with one answer each they are GRPO's
    advantages. There the rewards of steps are normalised first and added up then (section 4.1.3): so what is subtracted
    depends on when the policy stops, and moves it (verl's issue 7244). Here one number is subtracted from each return.
    """
    returns = [_to_go(rewards, discount) for rewards in episodes]
    every = [value for some in returns for value in some]
    scale = stdev(every) + EPSILON if scaled and len(every) > 1 else 1.0
    baseline = _baseline(returns)
    return [[(value - mean) / scale for value, mean in zip(some, baseline, strict=False)] for some in returns]


def _to_go(rewards: Sequence[float], discount: float) -> list[float]:
    found = [0.0]
    for reward in reversed(rewards):
        found.append(reward + discount * found[-1])
    return found[:0:-1]


def _baseline(returns: Sequence[Sequence[float]]) -> list[float]:
    found: list[float] = []
    for turn in range(max(map(len, returns), default=0)):
        there = [some[turn] for some in returns if len(some) > turn]
        found.append(fmean(there) if len(there) > 1 or not found else found[-1])
    return found
