"""Problems that have no room: left out and counted, or refused where the spec wants that."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ratchet_kit.errors import InvalidArgument


class _Named(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=_Named)
V = TypeVar("V", bound=_Named)


@dataclass(frozen=True, slots=True)
class Fitting(Generic[T]):
    """Of a set of problems, or of pairs, those that have room."""

    problems: Sequence[T]
    of: int
    """How many there are in all."""
    longest: int
    """Tokens of the longest, left out or not."""
    kind: str = "problem"

    @property
    def left_out(self) -> int:
        return self.of - len(self.problems)

    def require(self, count: int) -> None:
        """Raises InvalidArgument where fewer are left."""
        if len(self.problems) < count:
            raise InvalidArgument(
                f"{len(self.problems)} of {self.of} {self.kind}s have room, and {count} at least are needed: the"
                f" longest has {self.longest} tokens; {'take a smaller batch_size, or ' if self.problems else ''}more"
                " max_prompt_tokens where the base has room for them"
            )


def fitting(
    problems: Sequence[T], tokens: Sequence[int], room: int, leave_out: bool, kind: str = "problem"
) -> Fitting[T]:
    """`tokens`: of each problem. Raises InvalidArgument for the first that has more than `room`, unless it is left
    out, and where none has so few."""
    kept = []
    for problem, length in zip(problems, tokens, strict=True):
        if length <= room:
            kept.append(problem)
        elif not leave_out:
            raise InvalidArgument(f"{kind} {problem.id} has {length} tokens, and there is room for {room}")
    found = Fitting(kept, len(problems), max(tokens, default=0), kind)
    if problems:
        found.require(1)
    return found


def left_out(training: Fitting[T], validation: Fitting[V] | None) -> dict[str, float]:
    """As metrics of a step; none where all have room."""
    longest = max(training.longest, validation.longest if validation else 0)
    if not (training.left_out or (validation and validation.left_out)):
        return {}
    return {
        "problems": float(training.of),
        "problems_left_out": float(training.left_out),
        "validation_left_out": float(validation.left_out if validation else 0),
        "longest_problem_tokens": float(longest),
    }
