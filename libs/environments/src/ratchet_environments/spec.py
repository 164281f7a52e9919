"""Which environment a training or an evaluation takes."""

from dataclasses import dataclass, replace

from ratchet_kit.faults import Faults

EDITS = "edits"
NAMES = (EDITS,)
MAX_TURNS = 3
MOST_TURNS = 16


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """Where there is none, it is single-turn code."""

    name: str
    max_turns: int | None = None
    """Answers of an episode, at most; None: MAX_TURNS."""

    @property
    def turns(self) -> int:
        return MAX_TURNS if self.max_turns is None else self.max_turns

    def completed(self) -> "EnvironmentSpec":
        return replace(self, max_turns=self.turns)

    def check(self, faults: Faults) -> None:
        """Adds a fault for each field that is at fault."""
        faults.one_of("name", self.name, NAMES)
        faults.bounds("max_turns", self.turns, at_least=2, at_most=MOST_TURNS)
