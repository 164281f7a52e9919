"""A pair: two samples of one problem, and which of them a person prefers."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from ratchet_kit.errors import FailedPrecondition


class Choice(StrEnum):
    LEFT = "left"
    RIGHT = "right"
    TIE = "tie"


@dataclass(frozen=True, slots=True)
class Side:
    """A sample, with its text: a vote outlives the evaluation."""

    evaluation_id: str
    index: int
    """Among the samples of the problem."""
    text: str


@dataclass(frozen=True, slots=True)
class Pair:
    id: str
    voter: str
    benchmark: str
    problem_id: str
    prompt: str
    left: Side
    right: Side
    create_time: datetime
    choice: Choice | None = None
    vote_time: datetime | None = None

    def vote(self, choice: Choice, now: datetime) -> "Pair":
        """Raises FailedPrecondition when another choice was made."""
        if self.choice is choice:
            return self
        if self.choice is not None:
            raise FailedPrecondition(f"pair {self.id} was voted on before: {self.choice}")
        return replace(self, choice=choice, vote_time=now)

    @property
    def samples(self) -> frozenset[tuple[str, str, str, int]]:
        """Which samples these are, whatever their sides."""
        return frozenset(
            (self.benchmark, self.problem_id, side.evaluation_id, side.index) for side in (self.left, self.right)
        )
