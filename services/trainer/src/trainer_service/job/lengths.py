"""Problems that have no room: left out and counted, or refused where the spec wants that."""

from collections.abc import Sequence
from dataclasses import dataclass

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import Problem


@dataclass(frozen=True, slots=True)
class Fitting:
    """Of a set of problems those that have room."""

    problems: Sequence[Problem]
    of: int
    """How many there are in all."""
    longest: int
    """Tokens of the longest, left out or not."""

    @property
    def left_out(self) -> int:
        return self.of - len(self.problems)

    def require(self, count: int) -> None:
        """Raises InvalidArgument where fewer are left: a step takes so many."""
        if len(self.problems) < count:
            raise InvalidArgument(
                f"{len(self.problems)} of {self.of} problems have room, and a step takes {count}: the longest has"
                f" {self.longest} tokens; take more max_prompt_tokens or a smaller batch_size"
            )


def fitting(problems: Sequence[Problem], tokens: Sequence[int], room: int, leave_out: bool) -> Fitting:
    """`tokens`: of each problem. Raises InvalidArgument for the first that has more than `room`, unless it is left
    out, and where none has so few."""
    kept = []
    for problem, length in zip(problems, tokens, strict=True):
        if length <= room:
            kept.append(problem)
        elif not leave_out:
            raise InvalidArgument(f"problem {problem.id} has {length} tokens, and there is room for {room}")
    found = Fitting(kept, len(problems), max(tokens, default=0))
    if problems:
        found.require(1)
    return found


def left_out(training: Fitting, validation: Fitting | None) -> dict[str, float]:
    """As metrics of a step; none where all have room."""
    sets = [training, validation] if validation else [training]
    if not any(one.left_out for one in sets):
        return {}
    return {
        "problems": float(training.of),
        "problems_left_out": float(training.left_out),
        "validation_left_out": float(validation.left_out if validation else 0),
        "longest_problem_tokens": float(max(one.longest for one in sets)),
    }
