"""A version of a model and its life.

    PENDING --complete--> READY
       |
       +------fail------> FAILED

It has its number from the start. Once READY nothing of it changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from ratchet_kit.errors import FailedPrecondition, Failure
from ratchet_kit.names import AnyModel, VersionRef
from ratchet_kit.work import FREE, Held


class State(StrEnum):
    PENDING = "pending"
    """Its artifact is being copied and hashed."""
    READY = "ready"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self is not State.PENDING


@dataclass(frozen=True, slots=True)
class Lineage:
    """The origins of a version. Empty fields are not known, for example of an imported model."""

    base: AnyModel | None = None
    run_id: str = ""
    data_digest: str = ""
    config_digest: str = ""
    code_version: str = ""
    step: int = 0
    selection_digest: str | None = None
    """Of the problems by which it was chosen among its run's checkpoints; empty: none were. None: not known."""
    system: str = ""
    """The message of the system that its run put before prompts without one of their own."""
    drawn_digests: tuple[str, ...] = ()
    """The digests of the other sets that it was trained on."""

    @property
    def data_digests(self) -> Sequence[str]:
        """The digests of all that it was trained on."""
        return [self.data_digest, *self.drawn_digests]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A folder of files in the artifact store, with what identifies its content."""

    uri: str
    """fsspec URL or path of the folder."""
    sha256: str
    """Hex, over the files and their names."""
    policy_id: str
    """"sha256:<hex>" over the weights: see ratchet_kit.policy_id."""
    size_bytes: int
    settings_id: str = ""
    """The same over config, tokenizer and chat template; empty where it was not known yet when it was stored."""

    @property
    def key(self) -> str:
        """Where it is in the artifact store: the last two parts of its URI, "<model>/<id>"."""
        return "/".join(self.uri.rstrip("/").split("/")[-2:])


@dataclass(frozen=True, slots=True)
class VersionSpec:
    """What a caller asks for."""

    model: str
    source_uri: str
    """The folder or fsspec URL that is copied."""
    lineage: Lineage = Lineage()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Version(Held):
    ref: VersionRef
    spec: VersionSpec
    create_time: datetime
    state: State = State.PENDING
    artifact: Artifact | None = None
    """Of a READY version."""
    failure: Failure | None = None
    """Of a FAILED version."""
    end_time: datetime | None = None
    """When it became READY or FAILED."""

    @property
    def id(self) -> str:
        return str(self.ref)

    @property
    def policy_id(self) -> str:
        """Empty while there is no artifact."""
        return self.artifact.policy_id if self.artifact else ""

    @property
    def settings_id(self) -> str:
        """Empty while there is no artifact, and where it is not known."""
        return self.artifact.settings_id if self.artifact else ""

    def check_ready(self) -> None:
        """Raises FailedPrecondition unless it can be used."""
        if self.state is State.PENDING:
            raise FailedPrecondition(f"version {self.ref} is not ready: its artifact is still being copied")
        if self.failure is not None:
            raise FailedPrecondition(f"version {self.ref} has no artifact: {self.failure.message}")

    def complete(self, owner: str, artifact: Artifact, now: datetime) -> "Version":
        self.check_held(owner)
        return replace(self, state=State.READY, artifact=artifact, end_time=now, hold=FREE)

    def fail(self, owner: str, failure: Failure, now: datetime) -> "Version":
        self.check_held(owner)
        return replace(self, state=State.FAILED, failure=failure, end_time=now, hold=FREE)

    @property
    def label(self) -> str:
        return f"version {self.ref}"

    def check_open(self) -> None:
        if self.state.is_final:
            raise FailedPrecondition(f"{self.label} is {self.state}")


def check_deletion(ref: VersionRef, *, alias: str | None, gate_id: str | None, was_champion: bool) -> None:
    """Raises FailedPrecondition with the reason why the version has to stay: an alias or an undecided gate that points
    at it, or that it was in production, which is never forgotten."""
    refused = f"version {ref} cannot be deleted"
    if alias is not None:
        raise FailedPrecondition(f"{refused}: alias {alias} points at it")
    if gate_id is not None:
        raise FailedPrecondition(f"{refused}: gate {gate_id} is about it, and is not decided yet")
    if was_champion:
        raise FailedPrecondition(f"{refused}: it was champion, and versions that were in production are kept")
