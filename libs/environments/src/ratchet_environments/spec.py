"""Which environment a training or an evaluation takes."""

from dataclasses import dataclass, replace

from ratchet_kit.faults import Faults
from ratchet_rewards import PLUGIN

EDITS = "edits"
NAMES = (EDITS,)
MAX_TURNS = 3
MOST_TURNS = 16


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """Without one, it is single-turn code."""

    name: str
    max_turns: int | None = None
    """Answers of an episode, at most; None: MAX_TURNS."""
    digest: str = ""
    """Digest of the code of a plug-in, as it was found."""

    @property
    def turns(self) -> int:
        return MAX_TURNS if self.max_turns is None else self.max_turns

    @property
    def plugin(self) -> str:
        """The plug-in's name; empty for one of NAMES."""
        return self.name.removeprefix(PLUGIN) if self.name.startswith(PLUGIN) else ""

    def completed(self, digest: str = "") -> "EnvironmentSpec":
        return replace(self, max_turns=self.turns, digest=digest or self.digest)

    def check(self, faults: Faults, *, plugins: bool = False) -> None:
        """Adds a fault for each field that is at fault. `plugins`: whether it may be one, which is then looked up by
        whoever has them."""
        if not (plugins and self.plugin):
            trained = "plug-ins are of training, and play in its validations"
            if faults.unless(not self.plugin, "name", f"must be one of {', '.join(NAMES)}: {trained}"):
                faults.one_of("name", self.name, NAMES)
        faults.bounds("max_turns", self.turns, at_least=2, at_most=MOST_TURNS)
