"""What this service can run: the bounds that a spec has to keep within."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ratchet_kit.usage import Prices

GIB = 1 << 30
ASLEEP = 0.1
"""Share of its memory of a GPU that an engine keeps asleep, at most (vLLM's documentation of its sleep mode)."""


@dataclass(frozen=True, slots=True)
class Limits:
    devices: tuple[str, ...] = ("cpu",)
    """Devices that can be asked for, the default first."""
    accelerators: int | None = 2
    """How many the service's own Ray has; None where a cluster decides."""
    loggers: tuple[str, ...] = ("console", "tensorboard", "mlflow", "wandb")
    trackers: tuple[str, ...] = ()
    """Of the loggers, those that this service sends runs to (tracking.py); verl writes for the others."""
    memory_bytes: int | None = None
    """What a run may take: on CPU of this machine, on CUDA of one GPU. None: not known, and nothing is refused."""
    gpus: Mapping[str, int] = field(default_factory=dict)
    """Bytes of each GPU by its UUID, from which `memory_bytes` follows; none: it is as it stands."""
    cores: int | None = 2
    """Of the machine; None: not known."""
    activation_bytes: int = 4
    """Of one number in training: 4 in float32, 2 in bfloat16."""
    prices: Prices | None = None
    """None: the operator has set none."""
    tool_servers: tuple[str, ...] = ()
    """Names of those that the operator has set."""
    max_steps: int = 100_000
    max_nodes: int = 64
    max_accelerators_per_node: int = 16
    max_sequences: int = 65_536
    """Sequences per step: batch_size times group_size."""
    max_tokens: int = 131_072
    """Prompt and response together."""

    def beside(self, engines: Mapping[str, int], shares_gpu: bool = False) -> "Limits":
        """The limits beside engines that may take these bytes of the GPUs, by UUID; with `shares_gpu` they sleep."""
        if not self.gpus:
            return self
        taken = {uuid: int(size * (ASLEEP if shares_gpu else 1)) for uuid, size in engines.items()}
        return replace(self, memory_bytes=min(size - taken.get(uuid, 0) for uuid, size in self.gpus.items()))
