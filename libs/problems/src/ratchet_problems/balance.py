"""The balance of a set: its problems by tag, difficulty and language, their lengths and numbers of tests."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ratchet_problems.problem import Problem

MOST_NAMED = 50
"""Tags that are told: the most frequent."""
_MOST_KEPT = 10_000
"""Different tags that are counted at all."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Values that occur, by rank."""

    least: float
    p5: float
    p25: float
    median: float
    p75: float
    p95: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Quantiles | None":
        """None without values."""
        ordered = sorted(values)
        if not ordered:
            return None
        shares = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)
        return cls(*(float(ordered[round(share * (len(ordered) - 1))]) for share in shares))

    @classmethod
    def from_json(cls, found: Mapping[str, float] | None) -> "Quantiles | None":
        return cls(**found) if found else None


@dataclass(frozen=True, slots=True)
class Balance:
    """Counts are numbers of problems."""

    tags: Mapping[str, int]
    """The most frequent first. A problem counts for each of its tags."""
    difficulties: Mapping[str, int]
    """In order; 1 where a problem says none."""
    languages: Mapping[str, int]
    prompt: Quantiles | None
    """Characters of prompts, with all messages of a conversation."""
    reference: Quantiles | None
    """Characters of first references, of the problems that have one."""
    tests: Quantiles | None
    """Tests a problem."""

    @classmethod
    def from_json(cls, found: Mapping[str, Any] | None) -> "Balance | None":
        if not found:
            return None
        spread = {name: Quantiles.from_json(found[name]) for name in ("prompt", "reference", "tests")}
        return cls(**{**found, **spread})


class Balancer:
    """Counts problems that go by: 12 bytes of each are kept."""

    def __init__(self) -> None:
        self._tags, self._difficulties, self._languages = Counter[str](), Counter[int](), Counter[str]()
        self._prompt, self._reference, self._tests = array("I"), array("I"), array("I")

    def of(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """The same problems."""
        for problem in problems:
            self._add(problem)
            yield problem

    def balance(self) -> Balance:
        return Balance(
            dict(self._tags.most_common(MOST_NAMED)),
            {str(difficulty): number for difficulty, number in sorted(self._difficulties.items())},
            dict(self._languages.most_common()),
            *map(Quantiles.of, self._lengths()),
        )

    def _lengths(self) -> Sequence[Iterable[float]]:
        return self._prompt, self._reference, self._tests

    def _add(self, problem: Problem) -> None:
        for tag in set(problem.tags):
            if tag in self._tags or len(self._tags) < _MOST_KEPT:
                self._tags[tag] += 1
        self._difficulties[problem.difficulty] += 1
        self._languages[problem.language] += 1
        self._prompt.append(sum(len(message.content) for message in problem.messages))
        if problem.references:
            self._reference.append(len(problem.references[0]))
        self._tests.append(len(problem.tests))
