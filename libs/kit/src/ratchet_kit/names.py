"""The one grammar of names: models, aliases, versions, and what a person writes for a model.

    starter             a model: what is in production of it, its champion
    starter@2           a version
    starter:candidate   an alias
    ./folder, s3://...  a folder or an fsspec URL: it starts with "." or "~", or holds "/"

The registry stores these names; whoever takes one from a caller reads it here, so that all accept the same.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from ratchet_kit.errors import FieldViolation, InvalidArgument

CHAMPION: Final = "champion"
"""The alias of the version in production. Only this one is guarded by a gate."""

MAX_LENGTH: Final = 63
"""Of a model's or an alias's name, in letters."""
MAX_NUMBER: Final = 999_999_999
"""Of a version."""

_LETTERS = rf"[a-z0-9._-]{{0,{MAX_LENGTH - 1}}}"
_MODEL = re.compile(rf"[a-z0-9]{_LETTERS}")
_ALIAS = re.compile(rf"[a-z]{_LETTERS}")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")

_MODEL_RULE = f"start with a letter or a digit and hold at most {MAX_LENGTH} of a-z, 0-9, '.', '_', '-'"
_ALIAS_RULE = f"start with a letter and hold at most {MAX_LENGTH} of a-z, 0-9, '.', '_', '-'"
_NUMBER_RULE = "be a whole number from 1 on, without leading zeros"

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class VersionRef:
    """One immutable version of a model, written "starter@2"."""

    model: str
    number: int

    @classmethod
    def parse(cls, text: str, field: str = "version") -> "VersionRef":
        """Reads "<model>@<number>". Raises InvalidArgument, which names `field`."""
        return _or_invalid(_version, text, field)

    def __str__(self) -> str:
        return f"{self.model}@{self.number}"


@dataclass(frozen=True, slots=True)
class AliasRef:
    """The version that an alias points at now, written "starter:champion"."""

    model: str
    alias: str

    @classmethod
    def parse(cls, text: str, field: str = "alias") -> "AliasRef":
        """Reads "<model>:<alias>". Raises InvalidArgument, which names `field`."""
        return _or_invalid(_alias, text, field)

    def __str__(self) -> str:
        return f"{self.model}:{self.alias}"


@dataclass(frozen=True, slots=True)
class BareModel:
    """A model by its name alone, written "starter": its champion, or what a release under way gives a request."""

    model: str

    def __str__(self) -> str:
        return self.model

    @property
    def champion(self) -> AliasRef:
        return AliasRef(self.model, CHAMPION)


@dataclass(frozen=True, slots=True)
class Location:
    """A model that no registry knows: a folder or an fsspec URL, such as "./models/mine" or "s3://bucket/mine"."""

    uri: str

    def __str__(self) -> str:
        return self.uri

    @property
    def is_url(self) -> bool:
        return "://" in self.uri


AnyModel: TypeAlias = VersionRef | AliasRef | BareModel | Location


class ModelRef:
    """Reads whatever a person may write for a model."""

    @staticmethod
    def parse(text: str, field: str = "model") -> AnyModel:
        """Reads any of the four forms. Raises InvalidArgument, which names `field` and says what is legal."""
        return _or_invalid(_any, text, field)

    @staticmethod
    def parse_registered(text: str, field: str = "model") -> VersionRef | AliasRef | BareModel:
        """The same for what the registry knows: no folder and no URL."""
        return _or_invalid(_registered, text, field)


def policy_name(run_id: str) -> str:
    """The name under which the policy that a run trains is loaded in the rollout service."""
    return f"run-{run_id}"


def check_model_name(text: str, field: str = "model") -> str:
    """`text` when it may name a model, which is part of URLs and folders. Raises InvalidArgument."""
    return _or_invalid(_model_name, text, field)


def check_alias_name(text: str, field: str = "alias") -> str:
    """`text` when it may name an alias. Raises InvalidArgument."""
    return _or_invalid(_alias_name, text, field)


def check_version_number(number: int, field: str = "number") -> int:
    """`number` when it may be a version's. Raises InvalidArgument."""
    if not 1 <= number <= MAX_NUMBER:
        raise _invalid(field, f"must be from 1 to {MAX_NUMBER}, not {number}")
    return number


class _Fault(ValueError):
    """What the text must be, as the end of a sentence about its field."""


def _any(text: str) -> AnyModel:
    return Location(text) if text.startswith((".", "~")) or "/" in text else _registered(text)


def _registered(text: str) -> VersionRef | AliasRef | BareModel:
    if "@" in text:
        return _version(text)
    if ":" in text:
        return _alias(text)
    if not text:
        raise _Fault("must be a model (starter), a version (starter@2) or an alias (starter:champion)")
    return BareModel(_model_name(text))


def _version(text: str) -> VersionRef:
    model, separator, number = text.partition("@")
    if not separator:
        raise _Fault(f"must be <model>@<number>, such as starter@2; not {_shown(text)}")
    if not _NUMBER.fullmatch(number):
        raise _Fault(f"must be <model>@<number>, and the number must {_NUMBER_RULE}; not {_shown(number)}")
    return VersionRef(_model_name(model), int(number))


def _alias(text: str) -> AliasRef:
    model, separator, alias = text.partition(":")
    if not separator:
        raise _Fault(f"must be <model>:<alias>, such as starter:champion; not {_shown(text)}")
    return AliasRef(_model_name(model), _alias_name(alias))


def _model_name(text: str) -> str:
    if not _MODEL.fullmatch(text):
        raise _Fault(f"must name a model, which must {_MODEL_RULE}; not {_shown(text)}")
    return text


def _alias_name(text: str) -> str:
    if not _ALIAS.fullmatch(text):
        raise _Fault(f"must name an alias, which must {_ALIAS_RULE}; not {_shown(text)}")
    return text


def _shown(text: str) -> str:
    return repr(text[:80])


def _or_invalid(read: Callable[[str], R], text: str, field: str) -> R:
    try:
        return read(text)
    except _Fault as error:
        raise _invalid(field, str(error)) from None


def _invalid(field: str, description: str) -> InvalidArgument:
    return InvalidArgument(f"{field} {description}", [FieldViolation(field, description)])
