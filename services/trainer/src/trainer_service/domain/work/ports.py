"""The ports of the work on a run: the registry's versions, trackers, and the mirror of models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from ratchet_kit.errors import Failure
from ratchet_kit.names import AnyModel, VersionRef
from ratchet_kit.statistics import Estimate
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Run, RunId, Step
from trainer_service.domain.spec.spec import RunSpec


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
    system: str = ""
    """The message of the system that its run put before prompts without one of their own."""
    drawn: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Fingerprints of the newer versions of its problems that it learned from, too, by their digests."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the version, for people."""


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


class VersionRegistry(Protocol):
    """Where the registry makes versions."""

    async def register(self, request_id: str, model: str, source_uri: str, lineage: Lineage) -> RegisteredVersion:
        """Makes a version of the folder `source_uri`, and returns before it is READY.

        Idempotent: the same again returns the same version, as it is now.

        Raises:
            Unavailable: the registry cannot be reached, or is busy: try again.
            RatchetError: it refuses, and will again.
        """
        ...

    async def copying(self) -> Sequence[tuple[RunId, int]]:
        """Runs and steps of the models that it copies now, or is to. Raises Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """An evaluation of a checkpoint, as it is."""

    id: str
    policy_id: str = ""
    """The weights that were measured; empty until they are loaded."""
    is_over: bool = False
    score: Estimate | None = None
    """Pass@1 of the whole suite; None until it has succeeded."""
    failure: str = ""
    """The reason that it ended without a score."""
    progress: str = ""
    """How far one is that goes on, or what it waits for."""


@dataclass(frozen=True, slots=True)
class MeasuredProblems:
    digest: str
    """One digest of all sets, "sha256:<hex>"."""
    fingerprints: tuple[str, ...]
    """See ratchet_problems.fingerprint."""


class Evaluations(Protocol):
    """Evaluations of checkpoints, as their run's spec wants them. Every method raises Unavailable when they cannot be
    reached, or are busy."""

    async def create(self, request_id: str, spec: RunSpec, uri: str) -> Measured:
        """Begins one of the exported model at `uri`; the same again returns the same evaluation. Raises RatchetError
        where it is refused, and will be again."""
        ...

    async def get(self, id: str) -> Measured:
        """Raises NotFound."""
        ...

    async def problems(self, id: str) -> MeasuredProblems:
        """The problems that one has measured which is over. Raises NotFound."""
        ...

    async def cancel(self, id: str) -> None:
        """One that is over, or not there, is fine."""
        ...


PROJECT = "ratchet"
"""Where a spec names none."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a tracker is given of a run."""

    run: Run
    steps: Sequence[Step]
    """Those that it has not had."""
    checkpoints: Sequence[Checkpoint]
    files: Mapping[str, bytes]
    """Name -> content, of the small ones on record."""
    scored: Sequence[Step] = ()
    """Steps with nothing but the score that an evaluation gave their checkpoint; each once."""

    @property
    def project(self) -> str:
        return self.run.spec.tracker_project or PROJECT

    @property
    def name(self) -> str:
        return self.run.spec.display_name or self.run.id


class Tracker(Protocol):
    @property
    def name(self) -> str:
        """As specs name it in `loggers`."""
        ...

    async def show(self, shown: Shown, key: str) -> str:
        """Adds the steps, and makes all else as it is now. `key`: what the call before returned for this run, empty at
        the first; called again with the same it shows the same run. Raises RatchetError, within a minute or so."""
        ...


@dataclass(frozen=True, slots=True)
class MirroredModel:
    name: str
    description: str
    aliases: Mapping[str, int]
    """Alias -> number of the version that it points at."""
    latest: int
    """The highest number given so far."""


@dataclass(frozen=True, slots=True)
class MirroredVersion:
    """A version that is READY."""

    number: int
    uri: str
    policy_id: str
    run_id: str
    """Empty where no run made it."""
    key: str = ""
    """What the tracker calls that run."""
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MirroredVersions:
    ready: Sequence[MirroredVersion]
    """The oldest first."""
    is_settled: bool
    """None is being made."""


class Catalogue(Protocol):
    """The registry, to be read. Both raise Unavailable."""

    async def models(self) -> Sequence[MirroredModel]: ...

    async def versions(self, model: str) -> MirroredVersions: ...


class Mirror(Protocol):
    async def reflect(self, model: MirroredModel, versions: Sequence[MirroredVersion]) -> None:
        """Adds the versions that are missing there, and points the aliases at them. Raises RatchetError."""
        ...
