"""Which environment a training or an evaluation takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ratchet_kit.faults import Faults
from ratchet_rewards import PLUGIN

EDITS = "edits"
HARNESS = "harness"
NAMES = (EDITS,)
MAX_TURNS = 3
MOST_TURNS = 16
MOST_FILES = 200
MOST_FILE_BYTES = 1 << 20
"""Bytes of a harness's command and files together."""


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """Without one, it is single-turn code."""

    name: str
    max_turns: int | None = None
    """Answers of an episode, at most; None: MAX_TURNS."""
    digest: str = ""
    """Digest of the code of a plug-in, as it was found."""
    command: tuple[str, ...] = ()
    """A harness's, which calls the model and works on a task folder."""
    files: Mapping[str, str] = field(default_factory=dict)
    """A harness's own, by their path below /tmp/harness."""

    @property
    def is_harness(self) -> bool:
        return self.name == HARNESS

    @property
    def turns(self) -> int:
        return MAX_TURNS if self.max_turns is None else self.max_turns

    @property
    def plugin(self) -> str:
        """The plug-in's name; empty for one of NAMES."""
        return self.name.removeprefix(PLUGIN) if self.name.startswith(PLUGIN) else ""

    def completed(self, digest: str = "") -> "EnvironmentSpec":
        return self if self.is_harness else replace(self, max_turns=self.turns, digest=digest or self.digest)

    def check(self, faults: Faults, *, plugins: bool = False, harnesses: bool = False) -> None:
        """Adds a fault for each field that is at fault. `plugins`, `harnesses`: whether it may be one; a plug-in is
        then looked up by whoever has them."""
        if self.is_harness and harnesses:
            self._check_harness(faults)
            return
        for name in ("command", "files"):
            faults.unless(not getattr(self, name), name, "must be left out: it is of a harness")
        if self.is_harness:
            faults.add(
                "name", f"must be one of {', '.join(NAMES)}: evaluations measure a harness, no run trains with one"
            )
        elif not (plugins and self.plugin):
            trained = "plug-ins are of training, and play in its validations"
            if faults.unless(not self.plugin, "name", f"must be one of {', '.join(NAMES)}: {trained}"):
                faults.one_of("name", self.name, NAMES)
        faults.bounds("max_turns", self.turns, at_least=2, at_most=MOST_TURNS)

    def _check_harness(self, faults: Faults) -> None:
        faults.unless(
            self.max_turns is None, "max_turns", "must be left out: a harness ends by itself, or by the task's time"
        )
        faults.unless(bool(self.command and self.command[0]), "command", "must be the command of the harness")
        for name, texts in (("command", self.command), ("files", self.files.values())):
            faults.unless(not any("\0" in text for text in texts), name, "must not hold NUL")
        if faults.length("files", self.files, MOST_FILES):
            size = sum(len(text.encode()) for text in (*self.command, *self.files, *self.files.values()))
            faults.unless(size <= MOST_FILE_BYTES, "files", f"must have {MOST_FILE_BYTES} bytes at most; not {size}")
            for path in self.files:
                inside = all(part not in ("", ".", "..") for part in path.split("/")) and path.isprintable()
                faults.unless(inside, f"files.{path[:100]}", "must be a path below /tmp/harness")
