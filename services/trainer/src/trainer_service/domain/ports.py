"""What the domain needs from outside."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from ratchet_kit.errors import Failure
from ratchet_kit.idempotency import Request
from ratchet_kit.names import AliasRef, AnyModel, BareModel, Location, RewardRef, VersionRef
from ratchet_rewards import Registered
from trainer_service.domain.cluster.capacity import Node
from trainer_service.domain.create.memory import Shape
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Run, RunId, State, Step
from trainer_service.domain.spec.curriculum import Kind
from trainer_service.domain.spec.plugins import Installed
from trainer_service.domain.spec.recipes import Recipe
from trainer_service.domain.spec.spec import ProblemSetRef


class RunStore(Protocol):
    """The truth about runs. Every method raises Unavailable when the database cannot be reached."""

    async def create(self, run: Run, request: Request) -> Run:
        """Stores a new run, or returns the one that the request made before.

        Raises:
            AlreadyExists: the request's id was used for another spec.
        """
        ...

    async def made_by(self, request: Request) -> Run | None:
        """The run that the request made, None when there is none. Raises AlreadyExists like `create`."""
        ...

    async def get(self, id: RunId) -> Run:
        """Raises NotFound."""
        ...

    async def page(self, limit: int, after: str | None, state: State | None) -> Sequence[Run]:
        """Runs by id, the newest first, behind the one whose id is `after`."""
        ...

    async def unfinished(self) -> Sequence[Run]:
        """All runs in a state that is not final, the oldest first."""
        ...

    async def tracked(self) -> Sequence[Run]:
        """Runs that a tracker has not had all of, the oldest first."""
        ...

    async def counts(self) -> Mapping[State, int]:
        """How many runs are in each state."""
        ...

    async def delete(self, id: RunId) -> None:
        """Deletes the run, its steps and its checkpoints. Raises NotFound."""
        ...

    async def change(self, id: RunId, change: Callable[[Run], Run]) -> Run:
        """Stores what `change` makes of the run, which no one else changes meanwhile, and returns it.

        Raises NotFound, and whatever `change` raises: then nothing is stored.
        """
        ...

    async def arrange(self, change: Callable[[Sequence[Run]], Sequence[Run]]) -> Sequence[Run]:
        """Stores those that `change` makes of all unfinished runs, the oldest first, which no one else changes
        meanwhile; returns them."""
        ...

    async def record_step(self, id: RunId, step: Step, change: Callable[[Run, Step | None], Run]) -> Run:
        """Like `change`, with the step stored in the same transaction. `change` gets what its number held before."""
        ...

    async def record_checkpoint(
        self, id: RunId, checkpoint: Checkpoint, change: Callable[[Run, Sequence[Checkpoint]], Run]
    ) -> Run:
        """Like `change`, with the checkpoint stored too. `change` gets all of the run's, the new one included."""
        ...

    async def steps(self, id: RunId, limit: int, after: int) -> Sequence[Step]:
        """Steps with numbers above `after`, in order; none for a run that is not there."""
        ...

    async def superseded(self, before: datetime) -> Sequence[tuple[RunId, Checkpoint]]:
        """Of the runs that ended before then, the checkpoints that are not the best of their run."""
        ...

    async def delete_checkpoint(self, id: RunId, step: int) -> None:
        """One that is not the best. None that is there is fine."""
        ...

    async def checkpoints(self, id: RunId, limit: int, after: int) -> Sequence[Checkpoint]:
        """Checkpoints of steps above `after`, in order; none for a run that is not there."""
        ...


class JobState(StrEnum):
    WAITING = "waiting"
    """For room on the cluster."""
    ACTIVE = "active"
    ENDED = "ended"
    """Ended by itself, whatever its exit status, or stopped."""
    UNKNOWN = "unknown"
    """Never submitted here, or of a cluster that is gone."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    state: JobState
    message: str = ""
    """The reason that it ended, as far as that is known."""
    out_of_memory: bool = False
    no_room: bool = False
    """The cluster had no room for its ranks after all: others took it, or a node was lost."""


@dataclass(frozen=True, slots=True)
class FetchedModel:
    """A model that jobs can read."""

    uri: str
    """Where all services find it: a path or a URL."""
    path: Path
    """Where the trainer's jobs find it."""


class JobRunner(Protocol):
    """Runs jobs beside this service, on a cluster. A job is named by its run and attempt."""

    @property
    def place(self) -> str:
        """Where it submits jobs: what it says of a job that was submitted at another place means nothing."""
        ...

    async def nodes(self) -> Sequence[Node]:
        """What it has for jobs. Raises Unavailable when the cluster cannot be reached."""
        ...

    async def submit(self, run: Run, base: FetchedModel, reward_model: FetchedModel | None = None) -> None:
        """Starts the job of the run's attempt; a job of that name that is there already is left alone.

        Raises:
            Unavailable: the cluster cannot be reached, or does not come up.
        """
        ...

    async def status(self, id: RunId, attempt: int) -> JobStatus:
        """Raises Unavailable when the cluster cannot be reached."""
        ...

    async def stop(self, id: RunId, attempt: int) -> None:
        """Ends the job, and what it holds elsewhere; one that is not there is fine. Raises Unavailable."""
        ...


SMALL_MODEL_BYTES = 200_000_000


@dataclass(frozen=True, slots=True)
class Template:
    """What a chat template does with what is put into it, each as it goes on after "its chat template "; empty: not."""

    fault: str = ""
    """Why no problem can be put to a model by it."""
    turns_fault: str = ""
    """Why no reply can be put between answers."""
    changes: str = ""
    """To a problem: alike in training, evaluation and serving."""
    turns_changes: str = ""
    """To an earlier answer, so that one that is rendered anew is not as it was sampled."""


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
    template: Template = Template()
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
class Lineage:
    """How a version came to be; digests are "sha256:<hex>"."""

    base: AnyModel
    run_id: RunId
    data_digest: str
    config_digest: str
    code_version: str
    step: int
    training_fingerprints: tuple[str, ...] = ()
    """Of the problems that it learned from, for no gate to judge by; empty where they cannot be read any more."""
    selection_digest: str = ""
    """Of the problems by which it was chosen among its run's checkpoints; empty: none were."""
    selection_fingerprints: tuple[str, ...] = ()
    """As `training_fingerprints`."""


class VersionState(StrEnum):
    PENDING = "pending"
    """The registry copies the artifact."""
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RegisteredVersion:
    ref: VersionRef
    state: VersionState
    failure: Failure | None = None
    """Set when it is FAILED."""


class ModelRegistry(Protocol):
    """The registry's models, as far as training needs them."""

    async def resolve(self, ref: VersionRef | AliasRef | BareModel) -> FoundModel:
        """Version and URI of what `ref` names now. Raises Unavailable; NotFound when there is none that is READY."""
        ...

    async def register(self, request_id: str, model: str, source_uri: str, lineage: Lineage) -> RegisteredVersion:
        """Makes a version of the folder `source_uri`, and returns before it is READY.

        Idempotent: the same again returns the same version, as it is now.

        Raises:
            Unavailable: the registry cannot be reached, or is busy: try again.
            RatchetError: it refuses, and will again.
        """
        ...


class RewardRegistry(Protocol):
    """The registry's rewards of users' own."""

    async def find(self, ref: RewardRef) -> Registered:
        """Without a number the newest. Raises NotFound, with what there is; Unavailable."""
        ...

    async def use(self, ref: RewardRef, id: RunId) -> None:
        """Notes that the run is made with it, so that it is not deleted unawares. Raises NotFound, Unavailable."""
        ...


class ModelFolders(Protocol):
    """Folders of models, here or behind a URL."""

    async def inspect(self, uri: str) -> FoundModel:
        """The model in a folder, under a name and URI that hold everywhere (an absolute path).

        Raises:
            NotFound: there is no such folder, or it holds no config.json or no safetensors; the text says which.
            Unavailable: the place cannot be reached.
        """
        ...

    async def fetch(self, model: FoundModel, id: RunId, name: str = "base") -> FetchedModel:
        """The model in a local folder: copied into the run's own, under that name, where it is not local. Raises like
        `inspect`."""
        ...

    async def tidy(self, id: RunId) -> None:
        """Deletes what only a run under way needs: its last checkpoint, and the copy of its base."""
        ...

    async def with_leftovers(self) -> Sequence[RunId]:
        """The runs that `tidy` has something to delete of."""
        ...

    async def remove_export(self, id: RunId, uri: str) -> None:
        """Deletes a model that the run exported; nothing where it lies elsewhere, or is not there."""
        ...

    async def free_bytes(self) -> int:
        """What is free for the folders of runs."""
        ...

    async def remove(self, id: RunId) -> None:
        """Deletes the run's own folder, with its checkpoints, exports and logs. One that is not there is fine."""
        ...


@dataclass(frozen=True, slots=True)
class RunFile:
    name: str
    """A path below the run's record, with slashes."""
    size_bytes: int


class RunFiles(Protocol):
    """What jobs put on record for people to read (job/record.py)."""

    async def files(self, id: RunId) -> Sequence[RunFile]:
        """By name; none where there is no record."""
        ...

    async def read(self, id: RunId, name: str, offset: int, limit: int) -> bytes:
        """Bytes of a file that `files` named. Raises NotFound."""
        ...


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
    without_reference: str = ""
    """The id of one that has none, where there is one."""
    without_tests: str = ""
    """The id of one that has none, where there is one."""
    form: str = ""
    """Of a file of pairs, how their prompts can be put: one of PromptForm; empty: either way."""
    kinds: tuple[Kind, ...] = ()
    """Of its problems; empty for pairs."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of running a set's references."""

    size: int = 0
    """Problems that have a reference; 0 where none is to be run."""
    tried: int = 0
    faults: Sequence[str] = ()
    """Of problems whose reference does not pass, or whose tests any program passes, each with its id."""


class ProblemSets(Protocol):
    """The sets of problems, and the files of pairs, that jobs can read."""

    async def look_up(self, ref: ProblemSetRef) -> FoundSet:
        """What the set holds now.

        Raises:
            NotFound: there is no such set or file.
            InvalidArgument: it is no problem set, or empty; the text says where.
        """
        ...

    async def pairs(self, ref: ProblemSetRef) -> FoundSet:
        """What a file of pairs holds now. Raises like `look_up`."""
        ...

    async def trial(self, ref: ProblemSetRef) -> Trial:
        """Runs the references of a caller's problems, of as many as some seconds allow. `ref`: of a FoundSet."""
        ...


class Plugins(Protocol):
    async def installed(self) -> Sequence[Installed]:
        """Plug-ins that jobs can import, each with whether the operator allows it."""
        ...

    async def recipe(self, name: str) -> Recipe:
        """What an installed and allowed plug-in of the kind algorithm says. Raises InvalidArgument, DataLoss."""
        ...

    async def check_environment(self, name: str) -> None:
        """Raises InvalidArgument, with one sentence, where an installed and allowed plug-in of the kind environment
        cannot be imported, or takes other arguments; DataLoss where it has gone since."""
        ...


class PolicyHost(Protocol):
    """Where the jobs of a run load their policies."""

    def places(self) -> int | None:
        """How many policies of runs it may hold at a time, those that are loaded included. None: not known now."""
        ...

    async def release(self, id: RunId, attempt: int) -> None:
        """Unloads what the run's attempts up to this one left loaded. Best effort: raises nothing."""
        ...


class Events(Protocol):
    """Publishes changes of runs. Best effort: raises nothing."""

    async def changed(self, run: Run) -> None: ...


class Meter(Protocol):
    """Counts for operators. Both are told of all there is, now and then: of several replicas each says the same."""

    def states(self, counts: Mapping[State, int]) -> None:
        """How many runs are in each state now."""
        ...

    def unfinished(self, runs: Sequence[Run]) -> None:
        """All that go on now; what was said of others no longer holds."""
        ...
