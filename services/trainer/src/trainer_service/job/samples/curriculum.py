"""Which problems a step draws under a curriculum: more often those whose completions have differed.

The signal of a group is the variance of its rewards; for a reward of 0 or 1 that is p (1 - p) of its pass rate p. What
is known of a problem is little, a group or none, so it is taken together with what its difficulty has shown: a shrunken
mean. Pure Python: the same draws for the same seed and evidence, also after a restart from `state`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, variance
from typing import Any

from ratchet_kit.errors import InvalidArgument
from trainer_service.domain.spec.curriculum import Curriculum, Kind, Stage

PRIOR = 4.0
"""Completions that what is known of a difficulty counts for, beside those of the problem itself."""
KEPT = 0.5
"""Of the evidence of a problem, with each new group: the policy has changed since."""
LEVEL_KEPT = 0.9
"""Of the evidence of a difficulty, with each step."""
FIRST = (0.5, 0.25)
"""Pass rate and signal while nothing is known, as strong as one group."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the group of one draw told."""

    place: int
    """Of the problem."""
    passed: float
    """Share of its completions."""
    signal: float
    """Variance of their rewards."""
    size: int
    """Completions."""
    reward: float
    """Mean of their rewards."""

    @classmethod
    def of(cls, place: int, passed: Sequence[bool], rewards: Sequence[float]) -> "Evidence":
        """Of one completion or more."""
        return cls(place, fmean(passed), variance(rewards) if len(rewards) > 1 else 0.0, len(passed), fmean(rewards))


@dataclass(slots=True)  # mutable: sums
class _Sums:
    weight: float = 0.0
    passed: float = 0.0
    signal: float = 0.0

    def add(self, weight: float, passed: float, signal: float) -> None:
        self.weight += weight
        self.passed += weight * passed
        self.signal += weight * signal

    def fade(self, kept: float) -> None:
        self.weight, self.passed, self.signal = self.weight * kept, self.passed * kept, self.signal * kept

    def mean(self, prior: tuple[float, float], strength: float) -> tuple[float, float]:
        """Pass rate and signal, shrunk towards the prior."""
        whole = self.weight + strength
        return (self.passed + strength * prior[0]) / whole, (self.signal + strength * prior[1]) / whole


class Draws:
    """The draws of one run over its problems, by their places. A step draws, then `learn` ends it.

    Raises InvalidArgument for a stage that none of the problems is in.
    """

    def __init__(self, curriculum: Curriculum, kinds: Sequence[Kind], seed: int) -> None:
        self._exploration = 1.0 if curriculum.exploration is None else curriculum.exploration
        self._stages = curriculum.stages or (Stage(),)
        self._places = [[place for place, kind in enumerate(kinds) if stage.selects(kind)] for stage in self._stages]
        for number, places in enumerate(self._places, start=1):
            if not places:
                raise InvalidArgument(f"stage {number} of the curriculum has no problem left that has room")
        self._kinds = kinds
        self._seed = seed
        self._stage = 0
        self._stage_steps = 0
        self._step = 0
        self._problems: dict[int, _Sums] = {}
        self._levels = {kind.difficulty: _Sums() for kind in kinds}
        self._begin_step()

    def __len__(self) -> int:
        return len(self._kinds)

    @property
    def probabilities(self) -> dict[int, float]:
        """Of the problems of the stage, for the first draw of the step. Together 1."""
        return self._probabilities

    @property
    def pass_rate(self) -> float:
        """Of the problems of the stage, as it is estimated."""
        means = self._level_means()
        return fmean(self._estimate(place, means)[0] for place in self._places[self._stage])

    def draw(self) -> int:
        """The next one; none twice in a step while there are others."""
        return next(self._order)

    def learn(self, evidence: Sequence[Evidence]) -> dict[str, float]:
        """Ends the step, and its stage where that has come to its end. The metrics of the step."""
        metrics = {
            "stage": float(self._stage + 1),
            "effective_problems": 1 / sum(share**2 for share in self._probabilities.values()),
        }
        for level in self._levels.values():
            level.fade(LEVEL_KEPT)
        even = 1 / len(self._probabilities)
        for one in evidence:
            # By its weight, what was drawn on purpose counts as if draws had been even.
            share = self._probabilities.get(one.place, even)
            self._levels[self._kinds[one.place].difficulty].add(even / share, one.passed, one.signal)
            own = self._problems.setdefault(one.place, _Sums())
            own.fade(KEPT)
            own.add(one.size, one.passed, one.signal)
        rate = self.pass_rate
        stage = self._stages[self._stage]
        self._step += 1
        self._stage_steps += 1
        is_over = stage.steps is not None and self._stage_steps >= stage.steps
        is_over = is_over or (stage.pass_rate is not None and bool(evidence) and rate >= stage.pass_rate)
        if is_over and self._stage + 1 < len(self._stages):
            self._stage, self._stage_steps = self._stage + 1, 0
        self._begin_step()
        return metrics | {"estimated_pass_rate": rate}

    def state(self) -> dict[str, Any]:
        """After `learn`: plain values, for `restore`."""
        return {
            "step": self._step,
            "stage": self._stage,
            "stage_steps": self._stage_steps,
            "problems": {place: (one.weight, one.passed, one.signal) for place, one in self._problems.items()},
            "levels": {level: (one.weight, one.passed, one.signal) for level, one in self._levels.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Of draws over the same problems, under the same curriculum."""
        self._step, self._stage, self._stage_steps = state["step"], state["stage"], state["stage_steps"]
        self._problems = {place: _Sums(*sums) for place, sums in state["problems"].items()}
        self._levels |= {level: _Sums(*sums) for level, sums in state["levels"].items()}
        self._begin_step()

    def _begin_step(self) -> None:
        places = self._places[self._stage]
        means = self._level_means()
        signals = [self._estimate(place, means)[1] for place in places]
        whole, even = sum(signals), 1 / len(places)
        self._probabilities = {
            place: self._exploration * even + (1 - self._exploration) * (signal / whole if whole else even)
            for place, signal in zip(places, signals, strict=True)
        }
        self._order = self._ordered()

    def _ordered(self) -> Iterator[int]:
        """Draws without replacement, by weight: Efraimidis and Spirakis, Weighted random sampling with a reservoir
        (2006), algorithm A. All of them drawn, it begins again."""
        random = Random(f"{self._seed}/{self._step}")
        while True:
            keys = [
                (math.log(1 - random.random()) / probability, place)
                for place, probability in self._probabilities.items()
            ]
            yield from (place for _, place in sorted(keys, reverse=True))

    def _level_means(self) -> dict[int, tuple[float, float]]:
        levels = self._levels.values()
        sums = ((one.weight, one.passed, one.signal) for one in levels)
        overall = _Sums(*(sum(column) for column in zip(*sums, strict=True))).mean(FIRST, 1.0)
        return {level: one.mean(overall, 1.0) for level, one in self._levels.items()}

    def _estimate(self, place: int, level_means: dict[int, tuple[float, float]]) -> tuple[float, float]:
        of_level = level_means[self._kinds[place].difficulty]
        own = self._problems.get(place)
        return own.mean(of_level, PRIOR) if own else of_level
