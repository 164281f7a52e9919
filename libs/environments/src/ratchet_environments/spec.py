"""Which environment a training or an evaluation takes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from ratchet_kit.faults import Faults
from ratchet_rewards import PLUGIN

EDITS = "edits"
HARNESS = "harness"
TOOLS = "tools"
NAMES = (EDITS, HARNESS, TOOLS)
MAX_TURNS, MOST_TURNS = 3, 16
MAX_CALLS, MOST_CALLS = 20, 200
"""Answers of an episode with tools."""
NAMED = "mcp:"
"""Before the name of a tool server that the operator named."""
MOST_FILES = 200
MOST_FILE_BYTES = 1 << 20
"""Bytes of a harness's command and files together."""


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """Without one, it is single-turn code."""

    name: str
    max_turns: int | None = None
    """Answers of an episode, at most; None: MAX_TURNS, with tools MAX_CALLS."""
    digest: str = ""
    """Digest of the code of a plug-in, as it was found."""
    command: tuple[str, ...] = field(default=(), repr=False)
    """A harness's, which calls the model and works on a task folder. With tools: an MCP server's, whose tools the model
    has as well, or the names of the operator's servers, after NAMED."""
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The command's own, by their path below /tmp/harness."""

    @property
    def on_folders(self) -> bool:
        """It plays on task folders, and not on problems."""
        return self.name in (HARNESS, TOOLS)

    @property
    def tool_servers(self) -> list[str]:
        """The names of those that it uses."""
        named = self.command if self.name == TOOLS else ()
        return [text.removeprefix(NAMED) for text in named if text.startswith(NAMED)]

    @property
    def turns(self) -> int:
        if self.max_turns is None:
            return MAX_CALLS if self.name == TOOLS else MAX_TURNS
        return self.max_turns

    @property
    def plugin(self) -> str:
        """The plug-in's name; empty for one of NAMES."""
        return self.name.removeprefix(PLUGIN) if self.name.startswith(PLUGIN) else ""

    def completed(self, digest: str = "") -> "EnvironmentSpec":
        return self if self.name == HARNESS else replace(self, max_turns=self.turns, digest=digest or self.digest)

    def check(self, faults: Faults, *, plugins: bool = False) -> None:
        """Adds a fault for each field that is at fault. `plugins`: whether it may be one, which is then looked up by
        whoever has them."""
        if self.on_folders:
            self._check_command(faults)
            return
        for name in ("command", "files"):
            faults.unless(not getattr(self, name), name, "must be left out: it is of a harness, or of tools")
        if not (plugins and self.plugin):
            trained = "plug-ins are of training, and play in its validations"
            if faults.unless(not self.plugin, "name", f"must be one of {', '.join(NAMES)}: {trained}"):
                faults.one_of("name", self.name, NAMES)
        faults.bounds("max_turns", self.turns, at_least=2, at_most=MOST_TURNS)

    def check_tool_servers(self, faults: Faults, known: Collection[str]) -> None:
        """Adds a fault for a tool server that the operator did not name. `known`: those that the operator did."""
        named = ", ".join(sorted(known)) or "none"
        for name in self.tool_servers:
            rule = f"must name tool servers of the operator (RATCHET_TOOL_SERVERS: {named}), not {name!r}"
            faults.unless(name in known, "command", rule)

    def _check_command(self, faults: Faults) -> None:
        if self.name == TOOLS:
            faults.bounds("max_turns", self.turns, at_least=1, at_most=MOST_CALLS)
            given = bool(self.command and self.command[0]) or not (self.command or self.files)
            faults.unless(given, "command", "must be the command of an MCP server, whose files these are, or absent")
            alone = f"must be a command, or names of tool servers such as {NAMED}search; not both"
            faults.unless(len(self.tool_servers) in (0, len(self.command)), "command", alone)
        else:
            own = "must be left out: a harness ends by itself, or with the task's time"
            faults.unless(self.max_turns is None, "max_turns", own)
            faults.unless(bool(self.command and self.command[0]), "command", "must be the command of the harness")
        for name, texts in (("command", self.command), ("files", self.files.values())):
            faults.unless(not any("\0" in text for text in texts), name, "must not hold NUL")
        if faults.length("files", self.files, MOST_FILES):
            size = sum(len(text.encode()) for text in (*self.command, *self.files, *self.files.values()))
            faults.unless(size <= MOST_FILE_BYTES, "files", f"must have {MOST_FILE_BYTES} bytes at most; not {size}")
            for path in self.files:
                inside = all(part not in ("", ".", "..") for part in path.split("/")) and path.isprintable()
                faults.unless(inside, f"files.{path[:100]}", "must be a path below /tmp/harness")
