"""What evaluations need from outside."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from eval_service.domain.evaluation import Evaluation, ResolvedModel, State
from eval_service.domain.measurement import Measurement
from eval_service.domain.pair import Pair
from eval_service.domain.sample import ProblemKey, Sample, SampleKey
from eval_service.domain.score import Count, EpisodeMeans, Facts
from eval_service.domain.spec import Form, Kind, ProblemSetRef
from ratchet_environments import EnvironmentSpec, Limits
from ratchet_environments.folders.folder import TaskFolder
from ratchet_kit.idempotency import Request
from ratchet_kit.names import AnyModel, RewardRef
from ratchet_policies import EngineShare, Prompt, Sampling
from ratchet_problems import Message, Problem
from ratchet_rewards import Registered


@dataclass(frozen=True, slots=True)
class SampleFilter:
    """Which samples are meant; what is empty leaves it open."""

    benchmark: str = ""
    problem_id: str = ""
    verdict: str = ""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class EvaluationFilter:
    """Which evaluations are meant; what is empty leaves it open."""

    model: str = ""
    """Name of a model in the registry, whatever the version."""
    problems: str = ""
    """Name of a set."""
    state: State | None = None
    after_time: datetime | None = None
    """When the oldest was created."""
    name: str = ""
    """Part of the display_name, in any case."""


@dataclass(frozen=True, slots=True)
class Sound:
    """A problem whose reference passed."""

    shared: tuple[int, ...] = ()
    """The places of the tests that share the program's process."""
    cpu_time: timedelta = timedelta()
    """Of the reference with all tests; 0 where that is not known."""


class EvaluationStore(Protocol):
    """Evaluations and their samples. Any method raises Unavailable when the database cannot be reached."""

    async def create(self, evaluation: Evaluation, request: Request) -> Evaluation:
        """Stores it, or returns the one that was stored under the request before.

        Raises AlreadyExists when another one was asked for under the request's id.
        """
        ...

    async def find(self, request: Request) -> Evaluation | None:
        """The evaluation of the request. Raises AlreadyExists as `create` does."""
        ...

    async def get(self, id: str) -> Evaluation:
        """Raises NotFound."""
        ...

    async def page(
        self, limit: int, after: str | None, only: EvaluationFilter = EvaluationFilter()
    ) -> Sequence[Evaluation]:
        """Newest first; `after` is the last id already seen."""
        ...

    async def under_way(self) -> Sequence[Evaluation]:
        """Those that have not ended, oldest first."""
        ...

    async def change(self, id: str, change: Callable[[Evaluation], Evaluation]) -> Evaluation:
        """Reads it, applies the change and writes the result, in one transaction.

        Raises NotFound, and whatever `change` raises; nothing is written then.
        """
        ...

    async def delete(self, id: str) -> None:
        """With all that belongs to it. No error when it is not there."""
        ...

    async def forget_texts(self, before: datetime) -> int:
        """Removes completions, details and records from the samples of evaluations that ended before then. Returns how
        many evaluations had some."""
        ...

    async def add_problems(self, id: str, facts: Sequence[Facts]) -> None:
        """Stores facts of problems; those that are there already stay as they are. Raises Aborted where the evaluation
        was deleted meanwhile."""
        ...

    async def exclude(self, id: str, reasons: Mapping[ProblemKey, str]) -> None:
        """These problems, which are there, are not measured."""
        ...

    async def problems(self, ids: Sequence[str]) -> Mapping[str, Sequence[Facts]]:
        """By evaluation; in no order."""
        ...

    async def measurements(self, id: str) -> Sequence[Measurement]:
        """Of every evaluation that measured problems of this one, itself and deleted ones included; in no order. Of one
        that failed or was cancelled, only the problems with a judged sample count."""
        ...

    async def add_samples(self, id: str, samples: Sequence[Sample]) -> None:
        """Stores samples; one that is there already stays as it is. Raises Aborted where the evaluation was deleted
        meanwhile."""
        ...

    async def judge_samples(self, id: str, samples: Sequence[Sample]) -> None:
        """Gives samples that are there their completion and judgement; one that was judged stays as it is."""
        ...

    async def sample_keys(self, id: str) -> frozenset[SampleKey]:
        """Of all, judged or not."""
        ...

    async def unjudged(self, id: str, limit: int, after: SampleKey | None) -> Sequence[Sample]:
        """Those without a judgement, in the order of their keys."""
        ...

    async def sample_page(
        self, id: str, limit: int, after: SampleKey | None, only: SampleFilter = SampleFilter()
    ) -> Sequence[Sample]:
        """Judged ones, in the order of their keys."""
        ...

    async def sample(self, id: str, key: SampleKey) -> Sample:
        """A judged one, with the record of its episode. Raises NotFound."""
        ...

    async def means(self, id: str) -> EpisodeMeans | None:
        """Means of its samples; None without samples."""
        ...

    async def drawn(self, requests: Sequence[str]) -> Mapping[str, Sample]:
        """By request, a sample of any evaluation that was drawn for it; of those that the present work sees, by their
        project."""
        ...

    async def counts(self, ids: Sequence[str]) -> Mapping[str, Sequence[Count]]:
        """By evaluation; in no order."""
        ...

    async def tokens(self, ids: Sequence[str]) -> Mapping[str, int]:
        """By evaluation, the new tokens of its samples, whoever drew them."""
        ...

    async def sound(self, digests: Sequence[str]) -> Mapping[str, Sound]:
        """Of those problems whose reference passed once, by digest."""
        ...

    async def add_sound(self, found: Mapping[str, Sound]) -> None:
        """As `sound` gives them; what is there already stays as it is."""
        ...


@dataclass(frozen=True, slots=True)
class Put:
    """A problem as it is put to a model."""

    messages: tuple[Message, ...] = ()
    """Of a chat; empty where it is a text."""
    text: str = ""
    stop: tuple[str, ...] = ()


class ProblemSet(Protocol):
    """A set that was loaded."""

    @property
    def problems(self) -> Sequence[Problem]:
        """At least one."""
        ...

    @property
    def digest(self) -> str: ...

    @property
    def version(self) -> str:
        """The benchmark's official one; empty where it has none."""
        ...

    @property
    def runtime(self) -> str:
        """The sandbox's Python environment; empty: the imports choose it."""
        ...

    def limits(self, problem: Problem) -> Limits:
        """What a program for it may use."""
        ...

    def put(self, problem: Problem, form: Form, shots: int | None) -> Put:
        """Raises InvalidArgument for a form, or shots, that the set does not have."""
        ...

    def program(self, problem: Problem, completion: str) -> str:
        """The program that the set's official evaluator makes of a completion."""
        ...

    def solution(self, problem: Problem, solution: str) -> str:
        """The program that it makes of a solution that was made elsewhere."""
        ...

    def folder(self, problem: Problem) -> TaskFolder:
        """The problem's, in a set of Kind.FOLDERS."""
        ...


class ProblemSource(Protocol):
    async def pin(self, ref: ProblemSetRef, kind: Kind) -> ProblemSetRef:
        """The exact version that a name stands for now; what has no versions stays as it is. Raises InvalidArgument
        when there is no such set, Unavailable."""
        ...

    async def use(self, ref: ProblemSetRef, evaluation_id: str) -> None:
        """Notes that the evaluation measures it, where it is a data set of the registry. Raises InvalidArgument where
        it is gone, Unavailable."""
        ...

    async def check(self, ref: ProblemSetRef, kind: Kind) -> Sequence[str]:
        """What its caller should know of it. Raises InvalidArgument when there is no such set. Quick: what takes long
        is left to `load`."""
        ...

    async def load(self, ref: ProblemSetRef, kind: Kind) -> ProblemSet:
        """Prepares it first where that was not done yet, which may take minutes. Raises InvalidArgument, also for a set
        of another kind; Unavailable where it cannot be prepared now."""
        ...

    async def load_if_ready(self, ref: ProblemSetRef, kind: Kind) -> ProblemSet | None:
        """None where it must be prepared first. Raises InvalidArgument."""
        ...


class RewardSource(Protocol):
    """registry-service."""

    async def find(self, ref: RewardRef) -> Registered:
        """The version that the name stands for. Raises NotFound, Unavailable."""
        ...

    async def use(self, ref: RewardRef, evaluation_id: str) -> None:
        """Notes that an evaluation is made with it. Raises NotFound, Unavailable."""
        ...


class ModelSource(Protocol):
    """registry-service."""

    async def resolve(self, ref: AnyModel) -> ResolvedModel:
        """Raises NotFound, Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    tokens: int = 0
    truncated: bool = False
    """It was cut off at max_tokens."""


@dataclass(frozen=True, slots=True)
class Played:
    """A harness's episode."""

    passed: bool
    reason: str
    """The verdict's, with the reward."""
    forgeable: bool
    """The program could have written the reward."""
    said: str
    """Messages of the program and the model, for people: the last way through its calls."""
    calls: int
    """Answers of the model."""
    tokens: int
    """Sampled ones."""
    cpu_time: timedelta
    wall_time: timedelta
    limit: str = ""
    """Verdict of the limit that ended the harness: "TIME_LIMIT"; empty where it ended by itself."""
    tool_errors: int = 0
    record: bytes = b""
    """Packed by `ratchet_episodes.record`; empty where it could not be made."""


class LoadedPolicy(Protocol):
    """Weights that can be sampled from."""

    @property
    def policy_id(self) -> str: ...

    @property
    def settings_id(self) -> str:
        """Of its config, tokenizer and chat template."""
        ...

    @property
    def has_chat_template(self) -> bool: ...

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Answer:
        """What the policy goes on with, surely from the weights `policy_id`.

        Raises Unavailable, ResourceExhausted, DeadlineExceeded (worth another try; the engine gave up, too); NotFound,
        FailedPrecondition (the policy is gone, or holds other weights now); InvalidArgument (the prompt does not fit
        the model).
        """
        ...

    async def play(self, environment: EnvironmentSpec, folder: TaskFolder, sampling: Sampling) -> Played:
        """An episode of a harness that the policy, surely these weights, answered to, and its verdict. Raises as
        `complete`; InvalidArgument for a folder that cannot be judged, or a command that cannot start."""
        ...

    async def look(self) -> EngineShare:
        """The usage of its engines for these completions; where they do not answer, until the last look."""
        ...


class PolicyHost(Protocol):
    """rollout-service."""

    def open(self, model: ResolvedModel, holder: str) -> AbstractAsyncContextManager[LoadedPolicy]:
        """The model, loaded: by itself, or as what is served already. At the end, what was loaded for it is unloaded.

        `holder` names who it is for; the same holder finds what it left behind when it was killed.
        Raises ResourceExhausted when there is no room, FailedPrecondition when the weights cannot be loaded, DataLoss
        when they are not those expected, InvalidArgument, DeadlineExceeded, Unavailable.
        """
        ...

    async def holders(self) -> Sequence[str]:
        """Whom policies were loaded for that are still there. Raises Unavailable."""
        ...

    async def close(self, holder: str) -> None:
        """Unloads what was loaded for the holder. No error when there is nothing. Raises Unavailable."""
        ...


class Events(Protocol):
    """Tells whoever watches that an evaluation has ended. Best effort: raises nothing."""

    async def ended(self, evaluation: Evaluation) -> None: ...


class Meter(Protocol):
    """Counts what happens, for those who watch the service."""

    def sampled(self, verdict: str) -> None: ...

    def retried(self, fault: str) -> None:
        """A platform fault, by the name of its error."""
        ...

    def ended(self, evaluation: Evaluation) -> None: ...


class PairStore(Protocol):
    """Pairs with their votes. Raises Unavailable."""

    async def create(self, pair: Pair, request: Request) -> Pair:
        """Stores it, or gives what was stored under this request before. Raises AlreadyExists."""
        ...

    async def find(self, request: Request) -> Pair | None:
        """Raises AlreadyExists when the id was used for another pair."""
        ...

    async def change(self, id: str, change: Callable[[Pair], Pair]) -> Pair:
        """Raises NotFound, and what `change` raises."""
        ...

    async def page(self, limit: int, after: str | None, evaluation_id: str = "") -> Sequence[Pair]:
        """Newest first, those before `after`; of one evaluation where it is named."""
        ...

    async def between(self, ids: Sequence[str]) -> Sequence[Pair]:
        """Those whose both sides are of these evaluations, oldest first."""
        ...

    async def forget_unvoted(self, before: datetime) -> int:
        """Removes the pairs that were drawn before and never voted on, and says how many there were."""
        ...
