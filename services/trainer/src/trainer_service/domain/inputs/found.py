"""The inputs of a run as they were found: models, sets of problems, trials of their references."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ratchet_kit.names import Location, VersionRef
from ratchet_problems.templates import Template
from ratchet_rewards import Lookup
from trainer_service.domain.run.run import RunId
from trainer_service.domain.spec.curriculum import Kind
from trainer_service.domain.spec.plugins import Installed
from trainer_service.domain.spec.spec import ProblemSetRef, Validation

SMALL_MODEL_BYTES = 200_000_000


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a decoder, as its config says."""

    parameters: int
    layers: int
    hidden: int
    inner: int
    """Width of the MLP."""
    vocabulary: int

    def adapters(self, rank: int) -> int:
        """Parameters of LoRA's matrices, about: beside four projections of attention and three of the MLP, each of the
        rank times what goes in and what comes out."""
        return self.layers * rank * (4 * 2 * self.hidden + 3 * (self.hidden + self.inner))


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model that a run can start from, or be rewarded by."""

    ref: VersionRef | Location
    """What lineage records; a folder under a name that holds everywhere (an absolute path)."""
    uri: str
    """A folder, or an fsspec URL."""
    size_bytes: int = 0
    """Of its weights; 0: not known."""
    max_tokens: int = 0
    """Prompt and response together; 0: not known."""
    shape: Shape | None = None
    """None where its config does not say."""

    has_chat_template: bool = True
    template: Template = field(default_factory=Template)
    """What it does to a conversation, where there is one."""
    has_tokenizer: bool = True
    outputs: int = 0
    """Numbers that it gives for a text: 1 for a reward model, 0 for a model that writes."""
    faults: Sequence[str] = ()
    """What keeps it from being loaded, one by one, as it goes on after "must be a whole model: "."""
    quantised: str = ""
    """By what its weights are; empty: they are not."""
    has_experts: bool = False
    """It is a mixture of experts."""

    @property
    def is_small(self) -> bool:
        """Some fifty million parameters or fewer: such models learn with steps that would break a large one."""
        return 0 < self.size_bytes < SMALL_MODEL_BYTES


@dataclass(frozen=True, slots=True)
class Stored:
    """An export of a run, or what a run goes on from: its last checkpoint and the copy of its base."""

    run_id: RunId
    size_bytes: int
    export: str = ""
    """Its folder; empty: what the run goes on from."""


@dataclass(frozen=True, slots=True)
class FetchedModel:
    """A model that jobs can read."""

    uri: str
    """Where all services find it: a path or a URL."""
    path: Path
    """Where the trainer's jobs find it."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The parts that a problem lacks. Of problems with the same tags and gaps the first stands for all."""

    id: str
    tags: tuple[str, ...]
    reference: bool
    tests: bool
    program: bool
    """It has a right answer."""


@dataclass(frozen=True, slots=True)
class FoundSet:
    """A set of problems that a run can use."""

    ref: ProblemSetRef
    """With its digest, and a name that holds everywhere (an absolute path)."""
    size: int
    """Problems."""
    forgeable: str = ""
    """The id of one whose tests share the program's process, where there is one."""
    fingerprints: tuple[str, ...] = ()
    """Of its problems: see ratchet_problems.fingerprint."""
    faults: tuple[str, ...] = ()
    """Of problems that nothing can be learned from, each with its id: see ratchet_problems.examination."""
    notices: tuple[str, ...] = ()
    """What is no fault, and may fail right programs."""
    gaps: tuple[Gap, ...] = ()
    has_references: bool = True
    """At least one of its problems has one."""
    form: str = ""
    """Of a file of pairs, how their prompts can be put: one of PromptForm; empty: either way."""
    conversation: str = ""
    """The id of one whose prompt is a conversation, where there is one."""
    system: str = ""
    """The id of one that has a message of the system, where there is one."""
    kinds: tuple[Kind, ...] = ()
    """Of its problems; empty for pairs."""
    languages: tuple[str, ...] = ()
    """The languages of its problems other than Python."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of running a set's references."""

    size: int = 0
    """Problems that have a reference; 0 where none is to be run."""
    tried: int = 0
    faults: Sequence[str] = ()
    """Of problems whose reference does not pass, or whose tests any program passes, each with its id."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a spec's references lead to. None: nowhere, or there is no such reference."""

    base: FoundModel | None = None
    problems: FoundSet | None = None
    validation_problems: FoundSet | None = None
    rewards: Lookup = field(default_factory=Lookup)
    """Of the registry. What is missing there is in it, for `validation.check` to name."""
    plugins: Sequence[Installed] = ()
    """All there are; none is looked for where the spec names none."""
    pairs: FoundSet | None = None
    validation_pairs: FoundSet | None = None
    reward_model: FoundModel | None = None
    environment: str = ""
    """The digest of one that is a plug-in."""
    examples: FoundSet | None = None
    validate: Validation | None = None
