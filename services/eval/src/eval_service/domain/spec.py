"""What an evaluation measures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ratchet_environments import EnvironmentSpec
from ratchet_kit.faults import Faults
from ratchet_kit.names import AliasRef, AnyModel, BareModel, Location, RewardRef, VersionRef, check_model_name
from ratchet_problems import examples
from ratchet_problems.messages import MOST_SYSTEM, MOST_TEMPLATE

MAX_SAMPLES_PER_PROBLEM = 1024
MAX_TOKENS = 131_072
MAX_TEMPERATURE = 5.0
MAX_SETS = 50
MAX_SHOTS = 32
MAX_SCORE = 1e9
MAX_IMPORTED_SAMPLES = 5_000_000


@dataclass(frozen=True, slots=True)
class ProblemSetRef:
    name: str
    limit: int | None = None
    """The set's first so many problems; None means all."""
    digest: str = ""
    """"sha256:<hex>" of the problems that are measured; empty until they were loaded."""


@dataclass(frozen=True, slots=True)
class SuiteEntry:
    """One of the sets that are measured together."""

    problems: ProblemSetRef
    weight: float = 1.0
    """Its share in the whole score, relative to the others'."""
    version: str = ""
    """The benchmark's official version; empty until the problems were loaded, and where it has none."""


class Kind(StrEnum):
    """Content that a set must have to be measured."""

    TESTED = "tested"
    """Problems with tests."""
    UNTESTED = "untested"
    """Problems, with tests or without."""
    FOLDERS = "folders"
    """Task folders."""


class Form(StrEnum):
    """How a problem is put to a model."""

    CHAT = "chat"
    """In the model's own chat template."""
    COMPLETION = "completion"
    """Plain text that the model goes on with."""


@dataclass(frozen=True, slots=True)
class Prompting:
    form: Form | None = None
    """None: CHAT where the model has a chat template, else COMPLETION."""
    shots: int | None = None
    """Solved examples in front of the problem. None: as many as the benchmark does by itself in this form."""


@dataclass(frozen=True, slots=True)
class RewardJudge:
    """A reward of the registry that judges problems without tests."""

    reward: str
    """"facts@2"."""
    passing_score: float = 1.0
    """The lowest score of an answer that passes."""
    program: str = ""
    """The source of the reward; empty until the evaluation is made."""


@dataclass(frozen=True, slots=True)
class EvaluationSpec:
    """Raises InvalidArgument that names every fault there is, by its path below `spec`."""

    model: AnyModel | None
    """None where samples are imported."""
    suite: tuple[SuiteEntry, ...]
    """At least one; each under a name of its own."""
    samples_per_problem: int = 1
    """Of a problem there are as many at most, where they are imported."""
    k: tuple[int, ...] = (1,)
    temperature: float = 1.0
    max_tokens: int = 512
    """New ones, of a completion."""
    seed: int = 0
    prompting: Prompting = Prompting()
    imported_samples: int = 0
    """So many samples are added by the caller, and none is generated; 0: they are generated."""
    exclude_unsound: bool = False
    """Leave problems out whose own reference fails here, instead of ending the evaluation."""
    environment: EnvironmentSpec | None = None
    """None: one answer. Else a sample is an episode, and `max_tokens` are of each of its answers."""
    system: str = ""
    """In front of every chat that has no message of the system itself."""
    judge: RewardJudge | None = None
    """None: problems without tests are refused."""
    examples: ProblemSetRef | None = None
    """Solved problems of this set are shown before each problem, `limit` of them."""
    chat_template: str = ""
    """Jinja, in place of the model's; empty: the model's."""
    display_name: str = ""
    """For people."""
    budget: float | None = None
    """Cost at which it ends; None: no limit."""
    engine_model: str = ""
    """Model of the registry whose engine settings a model by location has; empty: none."""

    def __post_init__(self) -> None:
        faults = Faults()
        spec = faults.under("spec")
        self._check_sets(spec)
        imported = spec.bounds("imported_samples", self.imported_samples, at_least=0, at_most=MAX_IMPORTED_SAMPLES)
        if imported and self.imported_samples:
            spec.unless(self.model is None, "model", "must be left out where samples are imported")
        spec.bounds("samples_per_problem", self.samples_per_problem, at_least=1, at_most=MAX_SAMPLES_PER_PROBLEM)
        spec.bounds("max_tokens", self.max_tokens, at_least=1, at_most=MAX_TOKENS)
        spec.bounds("temperature", self.temperature, at_least=0, at_most=MAX_TEMPERATURE)
        spec.length("display_name", self.display_name, 200)
        if self.budget is not None:
            spec.bounds("budget", self.budget, above=0)
        spec.length("k", self.k, MAX_SAMPLES_PER_PROBLEM)
        for index, k in enumerate(self.k[:MAX_SAMPLES_PER_PROBLEM]):
            field = f"k[{index}]"
            if not 1 <= k <= self.samples_per_problem:
                spec.add(field, f"must be from 1 to samples_per_problem, not {k}")
            elif k in self.k[:index]:
                spec.add(field, f"must not repeat {k}")
            elif k > 1 and self.temperature == 0 and not self.imported_samples:
                spec.add(field, "must be 1 at temperature 0: greedy samples are all the same")
        if self.prompting.shots is not None:
            spec.bounds("prompting.shots", self.prompting.shots, at_least=0, at_most=MAX_SHOTS)
        self._check_environment(spec)
        if self.engine_model:
            spec.read("engine_model", check_model_name, self.engine_model)
            own = "must be left out: the model has engine settings of its own"
            spec.unless(isinstance(self.model, Location), "engine_model", own)
        if self.system:
            self._check_of_chats(spec, "system", self.system, MOST_SYSTEM)
        if self.chat_template:
            self._check_of_chats(spec, "chat_template", self.chat_template, MOST_TEMPLATE)
        if self.judge:
            self._check_judge(spec, self.judge)
        if self.examples:
            self._check_examples(spec, self.examples)
        faults.raise_if_any("the evaluation cannot be made")

    def _check_environment(self, spec: Faults) -> None:
        if self.environment is None:
            return
        self.environment.check(spec.under("environment"))
        spec.unless(not self.imported_samples, "environment", "must be left out where samples are imported")
        chat = "must be left out: its replies are messages of a chat, and the prompts are texts"
        spec.unless(self.prompting.form is not Form.COMPLETION, "environment", chat)
        if self.environment.on_folders:
            own = "must be left out: who plays on task folders says itself what it asks the model"
            for field in ("system", "chat_template", "examples"):
                spec.unless(not getattr(self, field), field, own)

    def _check_of_chats(self, spec: Faults, field: str, text: str, most: int) -> None:
        spec.length(field, text, most)
        spec.required(field, text.strip())
        spec.unless(not self.imported_samples, field, "must be left out where samples are imported")
        texts = "must be left out: it is of chats, and the prompts are texts"
        spec.unless(self.prompting.form is not Form.COMPLETION, field, texts)

    def _check_judge(self, spec: Faults, judge: RewardJudge) -> None:
        spec.read("judge.reward", RewardRef.parse, judge.reward)
        spec.bounds("judge.passing_score", judge.passing_score, at_least=-MAX_SCORE, at_most=MAX_SCORE)
        spec.unless(self.environment is None, "judge", "must be left out: it judges one answer, not an episode")

    def _check_examples(self, spec: Faults, shown: ProblemSetRef) -> None:
        spec.required("examples.name", shown.name)
        spec.bounds("examples.limit", shown.limit or 0, at_least=1, at_most=examples.MOST)
        spec.unless(not self.imported_samples, "examples", "must be left out where samples are imported")
        spec.unless(not self.prompting.shots, "prompting.shots", "must be left out where there are examples of a set")

    def _check_sets(self, spec: Faults) -> None:
        if not spec.unless(len(self.suite) <= MAX_SETS, "suite", f"must have at most {MAX_SETS} sets"):
            return
        for index, entry in enumerate(self.suite):
            field = "problems" if len(self.suite) == 1 else f"suite[{index}].problems"
            spec.required(f"{field}.name", entry.problems.name)
            if entry.problems.limit is not None:
                spec.bounds(f"{field}.limit", entry.problems.limit, at_least=1)
            if entry.problems.name and entry.problems.name in self.names[:index]:
                spec.add(f"{field}.name", f"must not repeat {entry.problems.name}")
            spec.bounds(f"suite[{index}].weight", entry.weight, above=0)

    @property
    def model_name(self) -> str:
        """The registry's name of the model, whatever the version; empty where it has none."""
        match self.model:
            case VersionRef(name, _) | AliasRef(name, _) | BareModel(name):
                return name
            case _:
                return ""

    @property
    def kind(self) -> Kind:
        """The kind of all its sets."""
        if self.environment and self.environment.on_folders:
            return Kind.FOLDERS
        return Kind.UNTESTED if self.judge else Kind.TESTED

    @property
    def names(self) -> tuple[str, ...]:
        """Of the sets."""
        return tuple(entry.problems.name for entry in self.suite)

    @property
    def digests(self) -> tuple[str, ...]:
        return tuple(entry.problems.digest for entry in self.suite)

    def with_loaded(self, loaded: Sequence[tuple[str, str]], shown: str = "") -> "EvaluationSpec":
        """`loaded`: digest and version of each set. `shown`: digest of the examples' set."""
        suite = tuple(
            replace(entry, problems=replace(entry.problems, digest=digest), version=version)
            for entry, (digest, version) in zip(self.suite, loaded, strict=True)
        )
        return replace(self, suite=suite, examples=self.examples and replace(self.examples, digest=shown))

    def as_requested(self) -> "EvaluationSpec":
        """Without what is not the caller's to say."""
        judge = replace(self.judge, program="") if self.judge else None
        return replace(self.with_loaded([("", "")] * len(self.suite)), judge=judge)
