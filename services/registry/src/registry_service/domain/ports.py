"""What the registry needs from outside."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from ratchet_kit.idempotency import Request
from ratchet_kit.names import DatasetRef, RewardRef, VersionRef
from registry_service.domain.dataset import Content, Dataset, DatasetSpec, Examined, PairContent, Tell, Upload
from registry_service.domain.evidence import Comparisons, Evaluation, Origin, Pair
from registry_service.domain.finding import Alike, Decision, Finding, FindingState, Other, Rule
from registry_service.domain.gate import Gate
from registry_service.domain.model import AliasChange, Model, RecordedChange
from registry_service.domain.reward import Reward, RewardSpec
from registry_service.domain.tries import Look
from registry_service.domain.version import Artifact, State, Version, VersionSpec


class ModelStore(Protocol):
    """Models and their aliases. In every store each method is one transaction, pages are newest first (models: by
    name), `after` is the key of the last item already seen, and any method raises Unavailable."""

    async def create(self, model: Model, request: Request) -> Model:
        """The model, or the one that the request made. Raises AlreadyExists when the name is taken."""
        ...

    async def find(self, request: Request) -> Model | None:
        """The model made under the request. Raises AlreadyExists when its id was used to ask for another."""
        ...

    async def get(self, name: str) -> Model:
        """Raises NotFound."""
        ...

    async def page(self, limit: int, after: str | None) -> Sequence[Model]: ...

    async def delete(self, name: str) -> None:
        """Raises NotFound, FailedPrecondition when it has or had a version: see `Model.check_deletable`."""
        ...

    async def move_alias(self, change: AliasChange) -> Model:
        """Points the alias at `change.to_number` and adds the change to its history.

        Raises NotFound and FailedPrecondition for a version that is missing or not READY, Aborted when the alias is no
        longer at `change.from_number` (0: does not exist).
        """
        ...

    async def history(
        self, model: str, alias: str | None, limit: int | None, after: int | None
    ) -> Sequence[RecordedChange]:
        """Changes of one alias, or of all (None); `limit` None: every one. Raises NotFound when there is no such
        model."""
        ...


@dataclass(frozen=True, slots=True)
class VersionFilter:
    """Which versions are meant; an empty field leaves it open."""

    state: State | None = None
    after_time: datetime | None = None
    """When the oldest was created."""


class VersionStore(Protocol):
    """Versions, and the uploads of their artifacts: files that are removed unless a version takes them."""

    async def create(self, spec: VersionSpec, now: datetime, request: Request) -> Version:
        """A PENDING version with its model's next number, or the one that the request made. Makes the model."""
        ...

    async def find(self, request: Request) -> Version | None:
        """The version made under the request. Raises AlreadyExists when its id was used to ask for another."""
        ...

    async def get(self, ref: VersionRef) -> Version:
        """Raises NotFound, saying whether the model or the version is missing."""
        ...

    async def page(
        self, model: str | None, limit: int, after: Sequence[Any] | None, only: VersionFilter = VersionFilter()
    ) -> Sequence[Version]:
        """Versions of a model, or of all: by model, then the newest first, behind the one with the model and number
        `after`. Raises NotFound when there is no such model."""
        ...

    async def change(self, ref: VersionRef, change: Callable[[Version], Version]) -> Version:
        """Stores what `change` makes of it, and raises what that raises. Raises NotFound."""
        ...

    async def complete(self, ref: VersionRef, change: Callable[[Version], Version], upload: str) -> Version:
        """`change`, and the upload is the version's. Raises Aborted when the upload was abandoned."""
        ...

    async def delete(self, ref: VersionRef, now: datetime) -> Version:
        """Deletes the version and returns what it was. Its artifact is an abandoned upload from now on.

        Raises NotFound, FailedPrecondition while an alias or an undecided gate points at it or when it was champion.
        """
        ...

    async def waiting(self, now: datetime) -> Sequence[Version]:
        """PENDING versions that no living worker holds, oldest first."""
        ...

    async def add_problems(self, digest: str, fingerprints: Collection[str]) -> None:
        """Keeps the fingerprints of a set of problems; what is known of it already stays."""
        ...

    async def fingerprints(self, digests: Collection[str]) -> frozenset[str]:
        """Fingerprints of all problems of the sets, as far as they are known."""
        ...

    async def begin_upload(self, upload: str, now: datetime) -> None:
        """Notes that files are about to be written there, so that they are found when nobody finishes."""
        ...

    async def abandon_upload(self, upload: str) -> bool:
        """Makes sure that the upload never becomes a version's. False when it is one's already, or is not known."""
        ...

    async def end_upload(self, upload: str) -> None:
        """Forgets an abandoned upload whose files are gone."""
        ...

    async def uploads_before(self, time: datetime) -> Sequence[str]:
        """The uploads that began before `time` and are no version's."""
        ...


class GateStore(Protocol):
    """Gates."""

    async def create(self, gate: Gate, request: Request) -> Gate:
        """Stores the gate, or returns the one that the request made. Raises NotFound when the candidate is gone."""
        ...

    async def find(self, request: Request) -> Gate | None:
        """The gate made under the request. Raises AlreadyExists when its id was used to ask for another."""
        ...

    async def get(self, id: str) -> Gate:
        """Raises NotFound."""
        ...

    async def page(self, model: str, limit: int, after: str | None) -> Sequence[Gate]:
        """Raises NotFound when there is no such model."""
        ...

    async def change(self, id: str, change: Callable[[Gate], Gate]) -> Gate:
        """Stores what `change` makes of it, and raises what that raises. Raises NotFound."""
        ...

    async def waiting(self, now: datetime) -> Sequence[Gate]:
        """PENDING gates that no living worker holds, oldest first."""
        ...


class RewardStore(Protocol):
    """Versions of rewards of one's own. A missing one raises NotFound that names what there is."""

    async def create(self, spec: RewardSpec, actor: str, now: datetime, request: Request) -> Reward:
        """The next version of the name, the one that has the same source, or the one that the request made."""
        ...

    async def find(self, request: Request) -> Reward | None:
        """The reward made under the request. Raises AlreadyExists when its id was used to ask for another."""
        ...

    async def get(self, ref: RewardRef) -> Reward:
        """With its source; without a number the newest. Raises NotFound."""
        ...

    async def page(self, name: str | None, limit: int, after: Sequence[Any] | None) -> Sequence[Reward]:
        """Pages of one name, or all (None), by name and the newest first, without sources. `after`: name and number.
        Raises NotFound when there is no such reward."""
        ...

    async def use(self, ref: RewardRef, run_id: str, now: datetime) -> None:
        """Notes a run that is made with it; the same again changes nothing. Raises NotFound."""
        ...

    async def delete(self, ref: RewardRef, *, force: bool) -> Reward:
        """Deletes the version, with the note of its runs, and returns what it was. Its number is not given again.

        Raises NotFound, FailedPrecondition when runs were made with it: see `Reward.check_deletable`.
        """
        ...


Delete = Callable[[str], Awaitable[None]]
"""Deletes a content by its sha256."""


class DatasetStore(Protocol):
    """The versions of data sets. Every method may raise Unavailable."""

    async def create(self, spec: DatasetSpec, actor: str, now: datetime, request: Request) -> Dataset:
        """The next version of the name, the one that has the same files and has not FAILED, or the one that the request
        made."""
        ...

    async def find(self, request: Request) -> Dataset | None:
        """The version made under the request. Raises AlreadyExists when its id was used to ask for another."""
        ...

    async def get(self, ref: DatasetRef) -> Dataset:
        """Without a number the newest that is READY. Raises NotFound, with what there is."""
        ...

    async def page(self, name: str | None, limit: int, after: Sequence[Any] | None) -> Sequence[Dataset]:
        """Versions of one name, or of all (None), by name and the newest first. `after`: name and number. Raises
        NotFound when there is no such data set."""
        ...

    async def change(self, ref: DatasetRef, change: Callable[[Dataset], Dataset]) -> Dataset:
        """Stores what `change` makes of it. Raises NotFound, and what `change` raises."""
        ...

    async def complete(
        self, ref: DatasetRef, change: Callable[[Dataset], Dataset], units: Mapping[str, datetime]
    ) -> Dataset:
        """As `change`; and whose pairs it holds, with the time of the earliest. Raises Aborted, too, where one of them
        is forgotten."""
        ...

    async def remake(
        self,
        spec: DatasetSpec,
        contents: Mapping[str, Content],
        units: Mapping[str, datetime],
        actor: str,
        now: datetime,
        request: Request,
    ) -> Dataset:
        """The next version of the name, READY with these contents, or the one that has the same already. Raises Aborted
        as `complete`."""
        ...

    async def forget(self, units: Mapping[str, datetime]) -> Sequence[Dataset]:
        """Keeps that pairs of these units are forgotten which are not later than that time. The READY versions that
        hold some are EXAMINING then, and returned."""
        ...

    async def forgotten(self) -> Mapping[str, datetime]:
        """All units that were forgotten, with the latest time."""
        ...

    async def release(self, sha256s: Sequence[str], delete: Delete, but: DatasetRef | None = None) -> None:
        """Calls `delete` for each of these contents that no version has, or none but that one. No version becomes READY
        meanwhile: one that has such a content finds then that it is gone. Raises what `delete` raises."""
        ...

    async def gated(self) -> Collection[DatasetRef]:
        """Versions that an evaluation of a gate measured."""
        ...

    async def waiting(self, now: datetime) -> Sequence[Dataset]:
        """Versions that are EXAMINING and with no living worker, the oldest first."""
        ...

    async def uploading_before(self, time: datetime) -> Sequence[DatasetRef]:
        """Versions that are UPLOADING and were made before that time."""
        ...

    async def use(self, ref: DatasetRef, user: str, now: datetime) -> None:
        """Notes who uses it; the same again changes nothing. Raises NotFound."""
        ...

    async def delete(self, ref: DatasetRef, *, force: bool) -> tuple[Dataset, Sequence[str]]:
        """Deletes the version, and returns what it was and the sha256 of contents that no other version has. Findings
        that people decided stay.

        Raises NotFound, FailedPrecondition: see `Dataset.check_deletable`.
        """
        ...


class FindingStore(Protocol):
    """The findings of examinations, and decisions about them. Every method may raise Unavailable."""

    async def replace(
        self, ref: DatasetRef, digests: Mapping[str, str], findings: Iterable[Finding], made_of: DatasetRef | None
    ) -> None:
        """Keeps the findings of a version that is EXAMINING, in place of those that it had; a part of them where it is
        broken off, until it is called again. A finding that `made_of` has, too, takes its decision over. `digests`: of
        the problems, by split. Raises Aborted for a version that is not EXAMINING any more."""
        ...

    async def report(self, ref: DatasetRef, digest: str, findings: Sequence[Finding]) -> None:
        """Adds unsound problems of the split, whose problems have this digest, in place of those reported before. What
        was decided stays."""
        ...

    async def page(
        self, ref: DatasetRef, rule: Rule, state: FindingState | None, limit: int, after: int | None
    ) -> Sequence[Finding]:
        """Findings that the rule selects, with this state (None: any), in their order. `after`: a place."""
        ...

    async def decide(self, decision: Decision) -> int:
        """Keeps the decision, of the findings of its version that its rule selects; how many they are."""
        ...

    async def accepted(self, digest: str) -> Sequence[Finding]:
        """Accepted near-duplicates among the problems of this digest, in whatever version, deleted ones included:
        models learned from it."""
        ...


class DatasetFiles(Protocol):
    """Where the bytes of data sets are: uploads in parts, and contents by their sha256.

    Every method may raise Unavailable, and those that write ResourceExhausted.
    """

    async def write_chunk(self, dataset: str, split: str, offset: int, data: bytes) -> None:
        """Keeps a part of an upload; the same again changes nothing."""
        ...

    async def examine(self, dataset: str, split: str, upload: Upload, tell: Tell, *, as_rows: bool) -> Examined:
        """Reads an upload that is whole, checks it, and keeps its content: all of it or nothing. `tell` is given the
        rows that are checked, and all of them.

        `as_rows`: of a benchmark, kept as it is. Raises DataLoss where the bytes are not those that were announced,
        InvalidArgument where they hold no problems, or wrong ones.
        """
        ...

    async def read(self, sha256: str, start: int, end: int) -> bytes:
        """Bytes of a content. Raises NotFound."""
        ...

    async def missing(self, sha256s: Sequence[str]) -> Sequence[str]:
        """Lists the contents of these that are not there."""
        ...

    async def unknown(self, sha256: str, ids: Collection[str]) -> Sequence[str]:
        """Lists those of the ids that no problem of a content has, or no task of a manifest, in their order. Raises
        NotFound."""
        ...

    async def uploads(self) -> Sequence[str]:
        """The data sets that there are parts of."""
        ...

    async def discard(self, dataset: str) -> None:
        """Deletes the parts of an upload. None are fine."""
        ...

    async def delete(self, sha256: str) -> None:
        """Deletes a content. None is fine."""
        ...


class PairFiles(Protocol):
    """The contents of data sets of pairs. Both methods may raise Unavailable and ResourceExhausted, and keep all of a
    content or nothing. `forgotten`: as `DatasetStore.forgotten` gives it."""

    async def examine(
        self, dataset: str, split: str, upload: Upload, forgotten: Mapping[str, datetime], tell: Tell
    ) -> PairContent:
        """Reads an upload that is whole, checks it, and keeps what is not forgotten. `tell` and what it raises are as
        in `DatasetFiles.examine`."""
        ...

    async def without(self, sha256: str, forgotten: Mapping[str, datetime]) -> PairContent:
        """Keeps what is not forgotten of a content. Raises NotFound."""
        ...


class TaskFiles(Protocol):
    """The contents of data sets of task folders."""

    async def examine(self, dataset: str, split: str, upload: Upload, tell: Tell) -> Examined:
        """Reads an upload that is whole, checks each folder, then keeps the manifest and all folders. Each method may
        raise Unavailable and ResourceExhausted; `tell` and the rest are as in `DatasetFiles.examine`."""
        ...


class SketchStore(Protocol):
    """The sketches of problems, by the digest of their set, which tell near-duplicates. Both methods may raise
    Unavailable."""

    async def pairs(
        self, learned: str, measured: str, but_learned: Collection[str] = (), but_measured: Collection[str] = ()
    ) -> Sequence[Pair]:
        """For each problem of the set `measured` that is nearly the same as one of `learned`, the two of them; none
        where the sketches of one are not there. Both: digests. `but_`: ids of problems that do not count."""
        ...

    async def alike(
        self, splits: Mapping[str, str], others: Sequence[Other], tell: Callable[[str, int, int], None]
    ) -> Mapping[str, Alike]:
        """By split: problems that are nearly the same as earlier ones of it, of the splits before it, of the sets
        `others`, and of Ratchet's own, one finding for each problem and name of a set. `splits`: the digests of their
        problems. `tell` is given a split, the sets that it is compared with, and all."""
        ...


@dataclass(frozen=True, slots=True)
class Stores:
    """All over one database."""

    models: ModelStore
    versions: VersionStore
    gates: GateStore
    rewards: RewardStore
    datasets: DatasetStore
    findings: FindingStore


class ArtifactStore(Protocol):
    """Where the files of versions are."""

    def check(self, source_uri: str, field: str) -> str:
        """`source_uri` when it may be read from. Raises InvalidArgument; it may be there or not."""
        ...

    async def ingest(self, source_uri: str, key: str) -> Artifact:
        """Copies a model folder to `key` and returns it with its digests; all of it or nothing.

        Raises NotFound when there is no such folder, InvalidArgument when it does not hold a model (config.json and
        readable *.safetensors), ResourceExhausted when the store is full, Unavailable when it cannot be reached.
        """
        ...

    async def is_policy(self, key: str) -> bool:
        """True when the artifact is a model that writes, not a reward model or another classifier. Raises NotFound,
        Unavailable when the store cannot be reached."""
        ...

    async def delete(self, key: str) -> None:
        """Removes whatever is at `key`, half copied or whole. No error when there is nothing."""
        ...


class Events(Protocol):
    """Tells whoever watches that a version is READY, or FAILED. Best effort: raises nothing."""

    async def ended(self, version: Version) -> None: ...


class EvaluationSource(Protocol):
    """The evidence that gates decide on: finished evaluations, from eval-service."""

    async def get(self, id: str) -> Evaluation:
        """Raises NotFound, FailedPrecondition when the evaluation has not succeeded, Unavailable."""
        ...

    async def looks(self, id: str) -> Sequence[Look]:
        """Every evaluation that measured problems of this one, itself included. Raises NotFound, Unavailable."""
        ...

    async def compare(self, baseline_id: str, candidate_id: str, confidence: float, origin: Origin) -> Comparisons:
        """With intervals of that confidence, and what the candidate knows of the problems.

        Raises NotFound, FailedPrecondition when the two cannot be compared, Unavailable.
        """
        ...
