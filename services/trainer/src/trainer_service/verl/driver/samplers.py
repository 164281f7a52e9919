"""A sampler of others, or a curriculum, as verl's: the order in which steps draw problems."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from torch.utils.data import Sampler

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import Problem
from trainer_service.job.samples.curriculum import Draws


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
                if not isinstance(place, int) or not 0 <= place < len(self._problems):
                    raise InvalidArgument(
                        f"the sampler drew {place!r}: it must draw whole numbers from 0 to {len(self._problems) - 1}"
                    )
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
