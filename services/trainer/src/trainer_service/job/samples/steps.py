"""The order of a run's steps, as types: a state has no more than may come next, and gives the state after it.

    Idle -> Generating -> Learning -> Idle             each step learns from samples of its own weights
            Generating -> Ahead -> Generating          those of later steps are made beside it (max_staleness)

So no prompt is drawn before a curriculum has learned from the steps that it may, and none twice; no weights are
replaced but between steps; and no checkpoint is saved over what was drawn ahead of it, so that a run that resumes there
begins with nothing under way.
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
    """Sends the engine the weights after the step."""

    def draw_all(self, drawn: int, until: int) -> int:
        """Draws for the steps after `drawn`, up to `until`. Returns the last step whose prompts are drawn now."""
        for step in range(drawn + 1, until + 1):
            self.draw(step)
        return max(drawn, until)


@dataclass(frozen=True, slots=True)
class Idle:
    """The engine has the weights after `step`, and nothing to do."""

    moves: Moves
    step: int

    def generate(self, until: int) -> "Generating":
        """The prompts of the next step, and of those after it up to `until`."""
        return Generating(self.moves, self.step + 1, self.moves.draw_all(self.step, max(until, self.step + 1)))


@dataclass(frozen=True, slots=True)
class Generating:
    """The samples of `step` are being made, and those of the steps up to `drawn`."""

    moves: Moves
    step: int
    drawn: int

    def learn(self, until: int) -> "Learning | Ahead":
        """Once they are there. Those of the steps up to `until` are made meanwhile, by the same weights."""
        self.moves.learn(self.step)
        drawn = self.moves.draw_all(self.drawn, until)
        return Ahead(self.moves, self.step, drawn) if drawn > self.step else Learning(self.moves, self.step)


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
    """`step` is learned from, while the samples of the steps up to `drawn` are being made."""

    moves: Moves
    step: int
    drawn: int

    def renew(self) -> Generating:
        self.moves.renew(self.step)
        return Generating(self.moves, self.step + 1, self.drawn)


State = Idle | Generating | Learning | Ahead
