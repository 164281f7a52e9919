"""What a run is asked to do. Plain values: `defaults` makes the open choices, `validation` then says what is wrong."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from ratchet_environments import EnvironmentSpec
from ratchet_kit.names import AnyModel, VersionRef
from ratchet_rewards import Reward
from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.curriculum import Curriculum
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.plugins import Plugin
from trainer_service.domain.spec.thresholds import Thresholds


@dataclass(frozen=True, slots=True)
class ProblemSetRef:
    """A named set, or the path of a JSONL file."""

    name: str
    limit: int | None = None
    """The first so many problems; None: all."""
    digest: str = ""
    """What it held when the run was created, "sha256:<hex>"."""

    @property
    def validation_split(self) -> "ProblemSetRef | None":
        """Where a set with splits keeps what its training split is validated on; there may be none of that name."""
        family, slash, split = self.name.rpartition("/")
        is_named = slash and "/" not in family and not family.startswith(".")
        return ProblemSetRef(f"{family}/validation") if is_named and split == "train" else None


@dataclass(frozen=True, slots=True)
class ValidationSet:
    """One of the sets that checkpoints are evaluated on."""

    problems: ProblemSetRef
    weight: float = 1.0
    """Its share in the score, relative to the others'."""


@dataclass(frozen=True, slots=True)
class Validation:
    """How eval-service measures the checkpoints of a run."""

    suite: tuple[ValidationSet, ...]
    samples: int = 1
    """Completions per problem."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The exported models that a run keeps."""

    last: int = 1
    """The newest ones."""
    best: int = 1
    """The ones with the best scores."""


@dataclass(frozen=True, slots=True)
class ParentCheckpoint:
    """The step of another run that a run starts from. The rest is known once the run is made."""

    run_id: str
    step: int
    base: AnyModel | None = None
    """The model that the first of its ancestors started from."""
    problems: tuple[ProblemSetRef, ...] = ()
    """Sets that the export has learned from, by the run and its ancestors."""
    pairs: tuple[ProblemSetRef, ...] = ()
    """The same of pairs."""


class PromptForm(StrEnum):
    """How a problem is put to a model."""

    CHAT = "chat"
    """In the model's own chat template."""
    COMPLETION = "completion"
    """Plain text that the model goes on with."""


@dataclass(frozen=True, slots=True)
class Resources:
    """None and the empty string: the service's default."""

    nodes: int | None = None
    accelerators_per_node: int | None = None
    """Training ranks per node; on CPU a rank is a process."""
    device: str = ""
    engines: int | None = None
    """Nodes of rollout-service that generate for the run."""
    min_nodes: int | None = None
    """It goes on with so few where the cluster has lost others."""
    shares_gpu: bool = False
    """With its engine, on the same GPUs."""

    @property
    def ranks_per_node(self) -> int:
        """What is open counts as 1, and so does 0, which is no number of them; here and below."""
        return self.accelerators_per_node or 1

    @property
    def ranks(self) -> int:
        """Training processes in all."""
        return (self.nodes or 1) * self.ranks_per_node

    @property
    def smallest(self) -> "Resources":
        """The same with the fewest nodes."""
        return replace(self, nodes=self.min_nodes or self.nodes)


@dataclass(frozen=True, slots=True)
class Passes:
    """How a batch goes through the model."""

    tokens: int
    """Of one pass on one rank, padding included."""
    recomputed: bool
    """Gradient checkpointing: activations are kept between layers only, and those within made a second time."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A request as it came; after `defaults.complete`, with every open choice made.

    `algorithm`, `prompt_form` and `priority` are names: what was asked, even where there is none of that name, until
    `validation` has passed the spec.
    """

    base: AnyModel | None
    """What it starts from; once complete, a version or a folder."""
    algorithm: str
    problems: ProblemSetRef
    """Without a name where there are pairs."""
    steps: int
    display_name: str = ""
    validation_problems: ProblemSetRef | None = None
    reward: Reward = field(default_factory=Reward)
    """Empty for an algorithm that learns from examples, or makes a reward model; for DPO, what validation measures."""
    resources: Resources = Resources()
    seed: int = 0
    hyperparameters: Hyperparameters = field(default_factory=Hyperparameters)
    validate_every: int | None = None
    """Steps; None: at the end only."""
    checkpoint_every: int | None = None
    """Steps; None: with each validation."""
    loggers: tuple[str, ...] = ()
    output_model: str = ""
    priority: str = ""
    verl_overrides: tuple[str, ...] = ()
    forgeable_rewards: bool = False
    """Whether problems may be learned from whose tests share the program's process."""
    refuse_long_prompts: bool = False
    """Whether a problem that has no room ends the run; else it is left out, and counted."""
    max_tokens: int | None = None
    """Of prompts and responses trained on, after which it ends, if not after `steps`; None: no such end."""
    budget: float | None = None
    """The cost after which it ends, like `max_tokens`, in the currency of the operator's prices."""
    prompt_form: str = ""
    """One of PromptForm. Empty: CHAT where the base has a chat template, else COMPLETION; in a run of old, CHAT."""
    plugins: tuple[Plugin, ...] = ()
    pairs: ProblemSetRef | None = None
    """The file of pairs that DPO, or a reward model, learns from; SFT learns the better answers of one."""
    validation_pairs: ProblemSetRef | None = None
    """Pairs that a reward model, or SFT from pairs, is compared on; None: it is not validated."""
    profile_steps: tuple[int, ...] = ()
    """Of RL: those of which the training ranks' work is traced."""
    tracker_project: str = ""
    """Under which trackers show it; empty: `tracking.PROJECT`."""
    curriculum: Curriculum | None = None
    """None: passes over all problems."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """Where its guards act."""
    environment: EnvironmentSpec | None = None
    """What judges answers, in training and in validation; None: single-turn code."""
    system: str = ""
    """In front of every prompt that has no message of the system itself."""
    examples: ProblemSetRef | None = None
    """Solved problems of this set are shown before each problem, `limit` of them."""
    all_answers: bool = False
    """SFT learns all answers in a conversation; else the reference alone."""
    kept_groups: int | None = None
    """RL: prompts of each step whose samples are kept, the first that are drawn."""
    chat_template: str = ""
    """Source of a template in place of the base's, which versions get, too; empty: the base's."""
    follow_problems: bool = False
    """Newer versions of the data set `problems` are drawn from as they become READY."""
    validate: Validation | None = None
    """Checkpoints are evaluated beside the run; None: the job validates them on the set that they are `chosen_by`."""
    keep: Keep | None = None
    """None, of a run that was made before there was a choice: all, and with `validate` the best."""
    parent: ParentCheckpoint | None = None
    """None: it starts from a `base` that the request names."""

    @property
    def engine_model(self) -> str:
        """The model of the registry whose engine settings its policy has; empty: none."""
        return self.base.model if isinstance(self.base, VersionRef) else self.output_model

    @property
    def learned(self) -> ProblemSetRef:
        """What it learns from."""
        return self.pairs or self.problems

    @property
    def chosen_by(self) -> ProblemSetRef | None:
        """The set that its checkpoints are compared on."""
        return self.validation_problems or self.validation_pairs

    def passes(self, out_of_memory: int = 0) -> Passes:
        """Of a complete spec. `out_of_memory`: attempts that ran out of it, each of which halves the tokens, down to
        those of the longest sequence, or pair."""
        hyper = self.hyperparameters
        tokens = max(
            (hyper.micro_batch_tokens or 0) >> out_of_memory, hyper.together(ALGORITHMS[self.algorithm].takes_pairs)
        )
        return Passes(tokens, bool(hyper.gradient_checkpointing) or out_of_memory > 0)

    def temperature_at(self, step: int) -> float:
        """Of a complete spec: on a line from the first step to the last. Where it has none nothing is sampled to learn
        from, and validations are sampled at 1."""
        start = 1.0 if self.hyperparameters.temperature is None else self.hyperparameters.temperature
        end = self.hyperparameters.temperature_end
        if end is None or end == start or self.steps < 2:  # a run of old has no end
            return start
        return start + (end - start) * (step - 1) / (self.steps - 1)
