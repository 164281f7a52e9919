"""What the domain needs from outside."""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from ratchet_kit.times import Clock
from rollout_service.domain.generation import EngineOutput, GenerationRequest
from rollout_service.domain.policy import Death, EngineInfo, EngineOptions, Policy, PolicyId, PolicyName
from rollout_service.domain.weights import LoadedWeights, WeightStream, WeightUpdateResult


@dataclass(frozen=True, slots=True)
class Changes:
    """A folder has them beside its weights: what an engine applies that has those of `base`."""

    base: PolicyId
    digest: str
    """Hash of their content."""


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A folder on this machine that an engine can load: config, tokenizer and safetensors files."""

    path: Path
    policy_id: PolicyId
    """Hash of its weights."""
    size_bytes: int
    """Of its weights."""
    settings_id: str = ""
    """Hash of all else that decides what it answers: see `ratchet_kit.policy_id.settings_of_folder`."""
    changes: Changes | None = None


class ModelFolders(Protocol):
    """Models on this machine's disk."""

    async def check(self, source: str) -> None:
        """Quick look at a source, without fetching it.

        Raises InvalidArgument for `source_uri` when it cannot be a model.
        """
        ...

    async def fetch(self, source: str) -> ModelFolder:
        """The model at a path or fsspec URL, as a folder. A local folder is used in place.

        Raises InvalidArgument when there is no model, DataLoss when its weights are damaged, Unavailable when the
        storage cannot be reached.
        """
        ...

    async def receive(self, base: ModelFolder, weights: WeightStream, *, changes: bool = False) -> ModelFolder:
        """Writes a new folder: `weights`, with the config and tokenizer of `base`. With `changes` tensors may come as
        what changed of those of `base`, and those that do not come are as there; the folder then has `changes`, too,
        unless there are tensors of other names or shapes.

        Raises DataLoss when the bytes of a tensor do not match its header, InvalidArgument when the stream is out of
        order, ResourceExhausted when the disk is full, or before the first tensor when it has no room for as much as
        `base` has. After an error no folder is left.
        """
        ...

    async def release(self, folder: ModelFolder) -> None:
        """Deletes a folder that `receive` or `fetch` made. A folder that is used in place is left alone."""
        ...

    async def retain(self, folders: Collection[str]) -> None:
        """Deletes all folders that were made here, also by a service that was killed, except these."""
        ...


@dataclass(frozen=True, slots=True)
class KeptPolicy:
    """A policy to reload after this service was killed."""

    policy: Policy
    folder: str
    """Path of the folder with the weights that it served last."""


class PolicyJournal(Protocol):
    """Which policies this service holds, kept on disk so that a killed service can reload them.

    It raises nothing: a policy that cannot be kept, or forgotten, is served all the same.
    """

    async def keep(self, kept: KeptPolicy) -> None:
        """Durable when it returns, unless the disk takes no more: then nothing is kept under this name."""
        ...

    async def forget(self, name: PolicyName) -> None:
        """Forgets a policy that is unloaded or failed. Does nothing when it is not kept."""
        ...

    async def kept(self) -> list[KeptPolicy]:
        """All kept policies, sorted by name."""
        ...


class PolicyEngine(Protocol):
    """A running engine with the weights of one policy. Its methods raise Unavailable once it is dead."""

    @property
    def info(self) -> EngineInfo: ...

    def generate(self, request: GenerationRequest, *, stream: bool) -> AsyncGenerator[EngineOutput, None]:
        """Completions of one prompt: all at once, or in pieces with `stream`. Closing the generator aborts the request.

        Raises InvalidArgument when the prompt does not fit the model, Unavailable when the engine dies.
        """
        ...

    async def interrupt(self) -> None:
        """Breaks off what it generates, and what it is asked for until `load_weights` has ended: each answer is
        ABORTED, with what there is of it. Raises Unavailable when the engine dies.
        """
        ...

    async def prepare(self, folder: ModelFolder) -> None:
        """Gets ready for the changes of a folder, while it generates: `load_weights` then applies them in place. Where
        that cannot be, the log says why, and `load_weights` reads the whole folder.

        Raises Unavailable when the engine dies.
        """
        ...

    async def load_weights(self, folder: ModelFolder) -> LoadedWeights:
        """Replaces the weights, drops the cache of the old ones, and checks that the engine computes with the new ones.

        Nothing may be generating meanwhile. Raises DataLoss when the check fails or the weights do not fit the model
        (the engine must not be used then), Unavailable when the engine dies.
        """
        ...

    async def sleep(self) -> None:
        """Frees the memory of its GPUs once nothing is generated. Until `wake` it generates nothing, and takes no
        weights. For engines that were started with `EngineOptions.sleeps`. Raises Unavailable when the engine dies.
        """
        ...

    async def wake(self) -> None:
        """It has its weights on the GPUs again, and no cache. Raises as `sleep`."""
        ...

    @property
    def cpu_time(self) -> timedelta:
        """Processor time of its processes since it was started, those that have ended included."""
        ...

    async def died(self) -> Death:
        """Waits until the engine is dead, or hangs: it does not answer its service any more, nor compute."""
        ...

    async def stop(self) -> None:
        """Returns when no process of the engine is left. May be called again."""
        ...


class EngineFactory(Protocol):
    """Starts engines."""

    async def start(
        self, name: PolicyName, model: ModelFolder, options: EngineOptions, devices: Sequence[str] = ()
    ) -> PolicyEngine:
        """An engine that is ready to generate, on these GPUs (`Devices.place`).

        Raises an error with the engine's own message when it does not start: InvalidArgument where no start of this
        model with these options can succeed, FailedPrecondition where another may. No process is left then.
        """
        ...


class OtherNodes(Protocol):
    """The rollout nodes beside this one."""

    @property
    def answering(self) -> Sequence[str]:
        """Addresses of those that answer."""
        ...

    def learn(self, address: str) -> None:
        """There may be a node: it is looked at from now on, until it has not answered for a while."""
        ...


class Meter(Protocol):
    """Counts what the service does."""

    def generated(self, policy: PolicyName, prompt_tokens: int, tokens: int, seconds: float) -> None: ...

    def busy(self, policy: PolicyName, sequences: int) -> None:
        """So many completions are being made, or wait to be, now."""
        ...

    def drained(self, draining: bool) -> None: ...

    def evicted(self, policy: PolicyName) -> None:
        """It was unloaded for another."""
        ...

    def updated(self, result: WeightUpdateResult) -> None: ...

    def engine_died(self, policy: PolicyName, hung: bool) -> None: ...

    def unloaded(self, policy: PolicyName) -> None:
        """It is gone, and with it what was counted of it: runs and evaluations each have a policy of a new name."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """All ports together, as `main.provision` hands them to the domain."""

    engines: EngineFactory
    folders: ModelFolders
    journal: PolicyJournal
    meter: Meter
    clock: Clock
    gpu_use: Callable[[Sequence[str]], Mapping[str, float]]
    """As `ratchet_kit.gpus.use`."""
