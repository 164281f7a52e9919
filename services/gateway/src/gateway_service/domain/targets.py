"""What a request can name as its model: a model by its name, one version, or an alias."""

import re
from dataclasses import dataclass

from ratchet_kit.errors import FieldViolation, InvalidArgument

CHAMPION = "champion"
_NAME = r"[a-z0-9][a-z0-9._-]*"
_TARGET = re.compile(rf"(?P<model>{_NAME})(?:@(?P<number>[1-9][0-9]{{0,8}})|:(?P<alias>{_NAME}))?")


@dataclass(frozen=True, slots=True)
class VersionRef:
    """One immutable version of a model; written "starter@2"."""

    model: str
    number: int

    def __str__(self) -> str:
        return f"{self.model}@{self.number}"


@dataclass(frozen=True, slots=True)
class AliasRef:
    """The version that an alias points at now; written "starter:champion"."""

    model: str
    alias: str

    def __str__(self) -> str:
        return f"{self.model}:{self.alias}"


@dataclass(frozen=True, slots=True)
class ReleasedRef:
    """A model by its name alone: its champion, or the version that its present release chooses."""

    model: str

    def __str__(self) -> str:
        return self.model


Target = ReleasedRef | VersionRef | AliasRef


def parse_target(text: str) -> Target:
    """Reads "starter", "starter@2" or "starter:champion". Raises InvalidArgument on anything else."""
    match = _TARGET.fullmatch(text)
    if match is None:
        wanted = 'a model ("starter"), a version ("starter@2") or an alias ("starter:champion")'
        raise InvalidArgument(f"{text!r} is not {wanted}", [FieldViolation("model", f"must be {wanted}")])
    model, number, alias = match["model"], match["number"], match["alias"]
    if number is not None:
        return VersionRef(model, int(number))
    if alias is not None:
        return AliasRef(model, alias)
    return ReleasedRef(model)
