"""What this service's machines can run: the bounds that a spec has to keep within."""

from dataclasses import dataclass

SMALL_MODEL_BYTES = 200_000_000


@dataclass(frozen=True)
class BaseModel:
    """The model a run starts from. `name` is what lineage records: "<model>@<n>", or the path.

    `uri`: folder or fsspec URL. `size_bytes`: of its weights. `max_tokens`: prompt and response together. 0: not known.
    """

    name: str
    uri: str
    size_bytes: int = 0
    max_tokens: int = 0

    @property
    def is_small(self) -> bool:
        """Some fifty million parameters or fewer: such models learn with steps that would break a large one."""
        return 0 < self.size_bytes < SMALL_MODEL_BYTES


@dataclass(frozen=True)
class Surroundings:
    """What a spec's references lead to: the base, and how many problems its sets hold. None: not known."""

    base: BaseModel | None = None
    problems: int | None = None
    validation_problems: int | None = None


@dataclass(frozen=True)
class Platform:
    """`accelerators`: how many the service's own Ray has; None where a cluster decides.

    `devices`: those that can be asked for, the default first.
    """

    devices: tuple[str, ...] = ("cpu",)
    accelerators: int | None = 2
    rewards: tuple[str, ...] = ("tests_passed", "tests_fraction")
    loggers: tuple[str, ...] = ("console", "tensorboard", "mlflow", "wandb")
    max_steps: int = 100_000
    max_nodes: int = 64
    max_accelerators_per_node: int = 16
    max_sequences: int = 65_536
    """Sequences a step: batch_size times group_size."""
    max_tokens: int = 131_072
    """Prompt and response together."""
