"""What the domain needs from outside."""

from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rollout_service.domain.generation import EngineOutput, GenerationRequest
from rollout_service.domain.policy import EngineInfo, EngineOptions, Policy, PolicyId, PolicyName
from rollout_service.domain.weights import LoadedWeights, WeightStream


@dataclass(frozen=True)
class ModelFolder:
    """A folder on this machine that an engine can load: config, tokenizer and safetensors."""

    path: Path
    policy_id: PolicyId
    """Of the weights in it."""
    bytes: int
    """Of its weights."""


class ModelFolders(Protocol):
    """Brings models onto this machine's disk, and keeps there what is served."""

    async def check(self, source: str) -> None:
        """Refuses a source that cannot be a model, as far as that can be told without fetching it.

        Raises InvalidArgument naming `source`.
        """
        ...

    async def fetch(self, source: str) -> ModelFolder:
        """The model at a path or fsspec URL, as a folder; a local one is used where it lies.

        Raises InvalidArgument when it holds no model, DataLoss when its weights are damaged, Unavailable when the
        storage cannot be reached.
        """
        ...

    async def receive(self, base: ModelFolder, weights: WeightStream) -> ModelFolder:
        """Writes `weights` beside the config and tokenizer of `base`, as a folder of its own.

        Raises DataLoss when a tensor's bytes are not those its header announced, InvalidArgument when the stream is
        out of order. Nothing is left behind then.
        """
        ...

    async def release(self, folder: ModelFolder) -> None:
        """Deletes a folder that `receive` or `fetch` made here; one that was used where it lies is left alone."""
        ...

    async def retain(self, folders: Collection[str]) -> None:
        """Deletes all that was made here, by a service that was killed too, but for these folders."""
        ...


@dataclass(frozen=True)
class KeptPolicy:
    """A policy to load again after this service was killed."""

    policy: Policy
    folder: str
    """Holds the weights that it served last."""


class PolicyJournal(Protocol):
    """Remembers across the death of this service which policies it held."""

    async def keep(self, kept: KeptPolicy) -> None:
        """Durable when it returns; takes the place of what was kept under the name."""
        ...

    async def forget(self, name: PolicyName) -> None:
        """Forgets a policy that is unloaded or failed; nothing happens when it was not kept."""
        ...

    async def kept(self) -> list[KeptPolicy]:
        """All that is kept, by name."""
        ...


class PolicyEngine(Protocol):
    """A running engine with one policy's weights. Methods raise Unavailable once it is dead."""

    @property
    def info(self) -> EngineInfo: ...

    def generate(self, request: GenerationRequest, *, stream: bool) -> AsyncGenerator[EngineOutput, None]:
        """Completions of one prompt: all at once, or in pieces when `stream`. Closing the generator aborts the request.

        Raises InvalidArgument when the prompt does not fit the model, Unavailable when the engine dies.
        """
        ...

    async def load_weights(self, folder: ModelFolder) -> LoadedWeights:
        """Replaces the weights, forgets what was cached under the old ones, and proves that the new ones are computed
        with. Nothing may be generating meanwhile.

        Raises DataLoss when the proof fails or the weights do not fit the model: the engine must not be used then.
        Raises Unavailable when the engine dies.
        """
        ...

    async def died(self) -> str:
        """Waits until the engine is dead, and says how it died."""
        ...

    async def stop(self) -> None:
        """Returns when no process of the engine is left. Safe to call again."""
        ...


class EngineFactory(Protocol):
    """Starts engines."""

    async def start(self, name: PolicyName, model: ModelFolder, options: EngineOptions) -> PolicyEngine:
        """An engine that is ready to generate.

        Raises FailedPrecondition with the engine's own words when it does not come up. Nothing is left running then.
        """
        ...


@dataclass(frozen=True)
class WeightUpdateMetrics:
    """What is worth counting about a weight update; durations in seconds."""

    bytes: int
    receive_seconds: float
    load_seconds: float
    probe_error: float


class Meter(Protocol):
    """Counts what the service does."""

    def generated(self, policy: PolicyName, prompt_tokens: int, tokens: int, seconds: float) -> None: ...

    def updated(self, policy: PolicyName, update: WeightUpdateMetrics) -> None: ...

    def engine_died(self, policy: PolicyName) -> None: ...
