"""The values of the registry: models, their immutable versions, aliases and the history of every alias."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ratchet_kit.errors import FieldViolation, InvalidArgument

CHAMPION = "champion"
"""The alias of the version in production. Only this one is guarded by a gate."""

_MODEL_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_ALIAS_NAME = re.compile(r"[a-z][a-z0-9._-]{0,62}")


def check_model_name(name: str, field_name: str = "model") -> str:
    """`name` when it may name a model, else InvalidArgument: it is part of URLs, folders and "<model>@<n>"."""
    if not _MODEL_NAME.fullmatch(name):
        raise _bad_name(field_name, name, "start with a letter or digit")
    return name


def check_alias_name(name: str) -> str:
    """`name` when it may name an alias, else InvalidArgument."""
    if not _ALIAS_NAME.fullmatch(name):
        raise _bad_name("alias", name, "start with a letter")
    return name


def _bad_name(field_name: str, name: str, start: str) -> InvalidArgument:
    text = f"must {start} and hold at most 63 of a-z, 0-9, '-', '_', '.'; not {name[:80]!r}"
    return InvalidArgument(f"{field_name} {text}", [FieldViolation(field_name, text)])


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    description: str
    create_time: datetime
    aliases: Mapping[str, int] = field(default_factory=dict)
    """Alias -> version number, as it is now."""
    latest_version: int = 0
    """0 while the model has no version."""

    @property
    def champion(self) -> int | None:
        """The number of the version in production."""
        return self.aliases.get(CHAMPION)


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a version was made from. Empty fields are not known, for example of an imported model."""

    base: str = ""
    """"<model>@<n>", or the path of the base."""
    run_id: str = ""
    data_digest: str = ""
    config_digest: str = ""
    code_version: str = ""
    step: int = 0


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


@dataclass(frozen=True, slots=True)
class VersionDraft:
    """A version that has everything but its number, which the store gives."""

    model: str
    artifact: Artifact
    lineage: Lineage
    labels: Mapping[str, str]
    create_time: datetime

    def numbered(self, number: int) -> "Version":
        return Version(self.model, number, self.artifact, self.lineage, self.labels, self.create_time)


@dataclass(frozen=True, slots=True)
class Version:
    """Immutable: nothing of it changes after it was made."""

    model: str
    number: int
    artifact: Artifact
    lineage: Lineage
    labels: Mapping[str, str]
    create_time: datetime

    @property
    def name(self) -> str:
        return f"{self.model}@{self.number}"

    @property
    def policy_id(self) -> str:
        return self.artifact.policy_id


@dataclass(frozen=True, slots=True)
class AliasChange:
    """One line of an alias's history. Lines are only ever added."""

    model: str
    alias: str
    from_version: int
    """0: the alias did not exist."""
    to_version: int
    reason: str
    gate_id: str
    """Empty when the change needed no gate."""
    time: datetime


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change with its place in the history: later changes have higher positions."""

    position: int
    change: AliasChange


def check_present(**fields: str) -> None:
    """InvalidArgument that names each field whose value is empty."""
    missing = [name for name, value in fields.items() if not value]
    if missing:
        raise InvalidArgument(
            f"{', '.join(missing)} must not be empty", [FieldViolation(name, "must not be empty") for name in missing]
        )
