"""From what was measured of a group of completions to their rewards, each from -1 to 1. Pure; docs/rewards.md.

The reward is that of the problem: `Reward.of` its tags.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from ratchet_rewards.catalogue import kind
from ratchet_rewards.reward import Combination, Component, Reward

LEVELS = 10
"""Steps that a value has in a lexicographic reward: values within a tenth may count as the same."""

Values = Mapping[str, float]
"""Component -> value, from its kind's `low` to 1."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of a completion: a value of each component of the reward."""

    values: Values
    passed: bool
    """All tests of its problem."""
    tampered: bool = False
    """It tried to forge its verdict, and earns the least there is."""
    cut: bool = False
    """A score of one's own was beyond its limit."""


def is_vetoed(reward: Reward, measured: Measured) -> bool:
    return measured.tampered or any(
        component.veto_below is not None and measured.values[component.name] < component.veto_below
        for component in reward.components
    )


def score(reward: Reward, measured: Measured, step: int) -> float:
    """The reward of one completion, whatever others there are: validations compare it. The weighted sum or, for a
    lexicographic reward, that. `step`: counts from 1, and decides the weights."""
    if reward.combination == Combination.LEXICOGRAPHIC:
        return _lexicographic(reward, _counted(reward, measured, step))
    return _weighted_sum(reward, _counted(reward, measured, step), step)


def rewards(reward: Reward, group: Sequence[Measured], step: int) -> list[float]:
    """The rewards of the completions of one prompt, in order, which this step learns from."""
    if reward.combination == Combination.GDPO:
        return _gdpo(reward, [_counted(reward, measured, step) for measured in group], step)
    return [score(reward, measured, step) for measured in group]


def _counted(reward: Reward, measured: Measured, step: int) -> Values:
    """The values as they count: at their worst for a veto, and for what counts for passing programs only."""
    vetoed = is_vetoed(reward, measured)
    return {
        component.name: _worst(component, step, reward)
        if vetoed or (component.passing_only and not measured.passed)
        else min(1.0, max(kind(component).low, measured.values[component.name]))
        for component in reward.components
    }


def _worst(component: Component, step: int, reward: Reward) -> float:
    wanted = reward.combination == Combination.LEXICOGRAPHIC or component.weight_at(step) >= 0
    return kind(component).low if wanted else 1.0


def _weighted_sum(reward: Reward, values: Values, step: int) -> float:
    """sum(w v) / sum(|w|)."""
    weights = {component.name: component.weight_at(step) for component in reward.components}
    total = math.fsum(abs(weight) for weight in weights.values())
    return math.fsum(weight * values[name] for name, weight in weights.items()) / total if total else 0.0


def _gdpo(reward: Reward, group: Sequence[Values], step: int) -> list[float]:
    """The weighted sum of each component's deviations from its mean in the group, in its standard deviations there
    (GDPO, arXiv:2601.05242, equation of A_sum), over the most that a deviation can be, (n - 1) / sqrt(n)."""
    if len(group) < 2:
        return [0.0] * len(group)
    most = (len(group) - 1) / math.sqrt(len(group))
    normalized = {}
    for component in reward.components:
        found = [values[component.name] for values in group]
        mean, deviation = fmean(found), stdev(found)
        # by chance of rounding equal values have a deviation
        normalized[component.name] = [(value - mean) / deviation / most if deviation > 1e-9 else 0.0 for value in found]
    return [
        _weighted_sum(reward, {name: found[place] for name, found in normalized.items()}, step)
        for place in range(len(group))
    ]


def _lexicographic(reward: Reward, values: Values) -> float:
    """The values as digits of a number, the first the highest: any gain of a component outweighs all those behind it.
    Over the largest such number, so that it is from 0 to 1."""
    number, largest = 0, 0
    for component in reward.components:
        low = kind(component).low
        digit = round(LEVELS * (values[component.name] - low) / (1 - low))
        number, largest = number * (LEVELS + 1) + digit, largest * (LEVELS + 1) + LEVELS
    return number / largest if largest else 0.0
