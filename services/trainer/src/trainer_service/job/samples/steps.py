"""The order of a run's steps, as types: a state has no more than may come next, and gives the state after it.

    Idle -> Generating -> Learning -> Idle             each step learns from samples of its own weights
            Generating -> Ahead -> Generating          the next one's are made beside it (max_staleness)

So no prompt is drawn before a curriculum has learned from the step before, and none twice; no weights are replaced
while samples are made by them; and no checkpoint is saved over what was drawn ahead of it, so that a run that resumes
there does what it would have done.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moves:
    """What is done on the way from state to state, each for a step by its number."""

    draw: Callable[[int], None]
    """Its prompts, which the engine gets."""
    learn: Callable[[int], None]
    """By the curriculum, from what its samples told."""
    save: Callable[[int], None]
    """The checkpoint after it."""
    renew: Callable[[int], None]
    """Waits until the engine has made all that it was asked for, then sends it the weights after the step."""


@dataclass(frozen=True, slots=True)
class Idle:
    """The engine has the weights after `step`, and nothing to do."""

    moves: Moves
    step: int

    def generate(self) -> "Generating":
        self.moves.draw(self.step + 1)
        return Generating(self.moves, self.step + 1)


@dataclass(frozen=True, slots=True)
class Generating:
    """The samples of `step` are being made."""

    moves: Moves
    step: int

    def learn(self, *, ahead: bool) -> "Learning | Ahead":
        """Once they are there. `ahead`: those of the next step are made meanwhile, by the same weights."""
        self.moves.learn(self.step)
        if not ahead:
            return Learning(self.moves, self.step)
        self.moves.draw(self.step + 1)
        return Ahead(self.moves, self.step)


@dataclass(frozen=True, slots=True)
class Learning:
    """`step` is learned from, and the engine has nothing to do."""

    moves: Moves
    step: int

    def save(self) -> None:
        self.moves.save(self.step)

    def renew(self) -> Idle:
        self.moves.renew(self.step)
        return Idle(self.moves, self.step)


@dataclass(frozen=True, slots=True)
class Ahead:
    """`step` is learned from, while the samples of the next one are being made."""

    moves: Moves
    step: int

    def renew(self) -> Generating:
        self.moves.renew(self.step)
        return Generating(self.moves, self.step + 1)


State = Idle | Generating | Learning | Ahead
