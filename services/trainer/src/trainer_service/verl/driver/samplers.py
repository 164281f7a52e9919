"""A sampler of others, or a curriculum, as verl's: the order in which steps draw problems."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import count, islice
from random import Random
from typing import Any

from torch.utils.data import Sampler

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import Problem
from trainer_service.job.plugins.signatures import EARNED
from trainer_service.job.samples.curriculum import Draws, Evidence

MOST_OF_A_PASS = 100_000
"""Problems of a pass that is drawn at once."""
MOST_EARNED = 100_000
"""Groups that are remembered."""


class PluginSampler(Sampler[int]):
    """Passes without an end, one after another. A run that resumes draws them again up to where it was."""

    def __init__(
        self, draw: Callable[[Sequence[Problem], int, int], Iterable[Any]], problems: Sequence[Problem], seed: int
    ) -> None:
        """`draw`: takes the problems, the run's seed and the number of the pass; gives places among the problems."""
        self._draw = draw
        self._problems = problems
        self._seed = seed

    def __len__(self) -> int:
        return len(self._problems)

    def __iter__(self) -> Iterator[int]:
        """Raises InvalidArgument for what is no place, and for a pass that draws nothing."""
        for number in count():
            drawn = 0
            for place in self._draw(self._problems, self._seed, number):
                _check_place(place, len(self._problems))
                drawn += 1
                yield place
            if not drawn:
                raise InvalidArgument(f"the sampler drew nothing in pass {number}")


class CurriculumSampler(Sampler[int]):
    """Draws without an end. What they go by is kept with the data position, in the checkpoint: torchdata asks a sampler
    that has these two methods for its state, in place of drawing again up to where it was."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws

    def __len__(self) -> int:
        return len(self._draws)

    def __iter__(self) -> Iterator[int]:
        while True:
            yield self._draws.draw()

    def state_dict(self) -> dict[str, Any]:
        return self._draws.state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._draws.restore(state)


class EarningSampler(Sampler[int]):
    """A plug-in's passes, each drawn when the one before has ended, from what the groups have earned until then. That
    and what is left of the pass are kept in the checkpoint: a run that resumes asks for no pass a second time."""

    def __init__(
        self,
        draw: Callable[..., Iterable[Any]],
        problems: Sequence[Problem],
        seed: int,
    ) -> None:
        """`draw`: as PluginSampler's, with `earned`, the records of `learn`, the oldest first."""
        self._draw = draw
        self._problems = problems
        self._seed = seed
        self._number = 0
        self._left: list[int] = []
        self._earned: list[dict[str, float]] = []

    def __len__(self) -> int:
        return len(self._problems)

    def __iter__(self) -> Iterator[int]:
        """Raises InvalidArgument for what is no place, and for a pass that draws nothing."""
        while True:
            if not self._left:
                drawn = self._draw(self._problems, self._seed, self._number, **{EARNED: tuple(self._earned)})
                self._left = _places(islice(drawn, MOST_OF_A_PASS), len(self._problems), self._number)
                self._number += 1
            yield self._left.pop(0)

    def learn(self, step: int, evidence: Sequence[Evidence]) -> None:
        """Adds a record of each group of a step, the newest last: step, place, passed, reward, signal, size."""
        self._earned += ({"step": step} | asdict(one) for one in evidence)
        del self._earned[:-MOST_EARNED]

    def state_dict(self) -> dict[str, Any]:
        return {"number": self._number, "left": list(self._left), "earned": list(self._earned)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._number, self._left, self._earned = state["number"], list(state["left"]), list(state["earned"])


class FollowingSampler(Sampler[int]):
    """Passes without an end over the newest version of a set, each in an order that the seed decides. What a newer
    version adds comes among the rest of the pass under way, and what it has no more is left out of it. A run that
    resumes adds the same versions before it draws."""

    def __init__(self, count: int, seed: int) -> None:
        """`count`: of problems in the first version, which have the first places."""
        self._seed = seed
        self._versions: list[Sequence[int]] = [range(count)]
        self._followed = 1
        self._number = 0
        self._left: list[int] = []

    def __len__(self) -> int:
        return len(self._versions[-1])

    @property
    def followed(self) -> int:
        """The versions after the first."""
        return len(self._versions) - 1

    def follow(self, places: Sequence[int]) -> None:
        self._versions.append(places)

    def __iter__(self) -> Iterator[int]:
        while True:
            while self._followed < len(self._versions):
                before, now = (set(self._versions[self._followed - back]) for back in (1, 0))
                rest = [place for place in self._left if place in now] + sorted(now - before)
                self._left = self._shuffled(rest, f"version/{self._followed}")
                self._followed += 1
            if not self._left:
                self._left = self._shuffled(sorted(self._versions[-1]), str(self._number))
                self._number += 1
            yield self._left.pop()

    def _shuffled(self, places: list[int], what: str) -> list[int]:
        Random(f"{self._seed}/{what}").shuffle(places)
        return places

    def state_dict(self) -> dict[str, Any]:
        return {"number": self._number, "left": list(self._left), "followed": self._followed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._number, self._left, self._followed = state["number"], list(state["left"]), state["followed"]


def takes_earned(draw: Callable[..., Any]) -> bool:
    return EARNED in inspect.signature(draw).parameters


def _places(drawn: Iterable[Any], count: int, number: int) -> list[int]:
    found = list(drawn)
    if not found:
        raise InvalidArgument(f"the sampler drew nothing in pass {number}")
    for place in found:
        _check_place(place, count)
    return found


def _check_place(place: Any, count: int) -> None:
    if not isinstance(place, int) or not 0 <= place < count:
        raise InvalidArgument(f"the sampler drew {place!r}: it must draw whole numbers from 0 to {count - 1}")
