"""The one grammar of names: models, aliases, versions, what a person writes for a model, and rewards of one's own.

    starter             a model: what is in production of it, its champion
    starter@2           a version
    starter:candidate   an alias
    ./folder, s3://...  a folder or an fsspec URL: it starts with "." or "~", or holds "/"
    brevity, brevity@2  a reward of one's own: its newest version, or that one
    mine, mine@1/train  a data set: its newest version, whole, or a split of that one
    acme~starter        any of these names, of project acme (projects.py)

The registry stores these names; whoever takes one from a caller reads it here, so that all accept the same.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ratchet_kit import projects
from ratchet_kit.errors import InvalidArgument, invalid

CHAMPION: Final = "champion"
"""The alias of the version in production. Only this one is guarded by a gate."""
MAX_NUMBER: Final = 999_999_999
"""Of a version."""

_REST = r"[a-z0-9._-]{0,62}"
_MODEL = re.compile(rf"(?=.{{1,63}}$){projects.MARK}[a-z0-9]{_REST}")
_ALIAS = re.compile(rf"[a-z]{_REST}")
_REWARD = re.compile(rf"{projects.MARK}[a-z][a-z0-9_]{{0,39}}")
_SPLIT = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_RULE = "and hold at most 63 of a-z, 0-9, '.', '_', '-'"


def suggestion(text: str, known: Iterable[str]) -> str:
    """ ": did you mean starter?", to go on with behind what is not there; empty where nothing is near."""
    near = difflib.get_close_matches(text, filter(projects.is_seen, known), 1)
    return f": did you mean {near[0]}?" if near else ""


def check_model_name(text: str, field: str = "model") -> str:
    """`text` when it may name a model, which is part of URLs and folders. Raises InvalidArgument, which names `field`,
    as all functions here do."""
    if not _MODEL.fullmatch(text):
        raise _invalid(field, f"must name a model, which must start with a letter or a digit {_RULE}", text)
    return text


def check_alias_name(text: str, field: str = "alias") -> str:
    """`text` when it may name an alias."""
    if not _ALIAS.fullmatch(text):
        raise _invalid(field, f"must name an alias, which must start with a letter {_RULE}", text)
    return text


def check_reward_name(text: str, field: str = "name") -> str:
    """`text` when it may name a reward of one's own, which is part of the names of metrics and of Python files."""
    if not _REWARD.fullmatch(text):
        rule = "must name a reward, which must start with a letter and hold at most 40 of a-z, 0-9, '_'"
        raise _invalid(field, rule, text)
    return text


def check_dataset_name(text: str, field: str = "name") -> str:
    """`text` when it may name a data set."""
    if not _MODEL.fullmatch(text):
        raise _invalid(field, f"must name a data set, which must start with a letter or a digit {_RULE}", text)
    return text


def check_split_name(text: str, field: str = "split") -> str:
    """`text` when it may name a split of a data set."""
    if not _SPLIT.fullmatch(text):
        rule = "must name a split, which must start with a letter or a digit and hold at most 40 of a-z, 0-9, '_', '-'"
        raise _invalid(field, rule, text)
    return text


def check_version_number(number: int, field: str = "number") -> int:
    """`number` when it may be a version's."""
    if not 1 <= number <= MAX_NUMBER:
        raise _invalid(field, f"must be from 1 to {MAX_NUMBER}", number)
    return number


@dataclass(frozen=True, slots=True)
class VersionRef:
    """One immutable version of a model, written "starter@2"."""

    model: str
    number: int

    @classmethod
    def parse(cls, text: str, field: str = "version") -> "VersionRef":
        model, separator, number = text.partition("@")
        if not separator or not _NUMBER.fullmatch(number):
            rule = "must be <model>@<number>, such as starter@2: a whole number from 1 on, without leading zeros"
            raise _invalid(field, rule, text)
        return cls(check_model_name(model, field), int(number))

    def __str__(self) -> str:
        return f"{self.model}@{self.number}"


@dataclass(frozen=True, slots=True)
class AliasRef:
    """The version that an alias points at now, written "starter:champion"."""

    model: str
    alias: str

    @classmethod
    def parse(cls, text: str, field: str = "alias") -> "AliasRef":
        model, separator, alias = text.partition(":")
        if not separator:
            raise _invalid(field, "must be <model>:<alias>, such as starter:champion", text)
        return cls(check_model_name(model, field), check_alias_name(alias, field))

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
        """Any of the four forms."""
        if text.startswith((".", "~")) or "/" in text:
            return Location(text)
        return ModelRef.parse_registered(text, field)

    @staticmethod
    def parse_registered(text: str, field: str = "model") -> VersionRef | AliasRef | BareModel:
        """What the registry knows: no folder and no URL."""
        if "@" in text:
            return VersionRef.parse(text, field)
        if ":" in text:
            return AliasRef.parse(text, field)
        if not text:
            forms = "must be a model (starter), a version (starter@2) or an alias (starter:champion)"
            raise _invalid(field, forms, text)
        return BareModel(check_model_name(text, field))


@dataclass(frozen=True, slots=True)
class RewardRef:
    """A reward of one's own in the registry, written "brevity@2", or "brevity" for its newest version."""

    name: str
    number: int | None = None

    @classmethod
    def parse(cls, text: str, field: str = "reward") -> "RewardRef":
        name, separator, number = text.partition("@")
        if separator and not _NUMBER.fullmatch(number):
            rule = "must be <reward>@<number>, such as brevity@2: a whole number from 1 on, without leading zeros"
            raise _invalid(field, rule, text)
        return cls(check_reward_name(name, field), int(number) if separator else None)

    def __str__(self) -> str:
        return self.name if self.number is None else f"{self.name}@{self.number}"


@dataclass(frozen=True, slots=True)
class DatasetRef:
    """A data set in the registry, written "mine@1/train"; "mine" is its newest version, whole."""

    name: str
    number: int | None = None
    split: str = ""

    @classmethod
    def parse(cls, text: str, field: str = "dataset") -> "DatasetRef":
        version, slash, split = text.partition("/")
        name, separator, number = version.partition("@")
        if separator and not _NUMBER.fullmatch(number):
            rule = "must be <data set>@<number>, such as mine@2: a whole number from 1 on, without leading zeros"
            raise _invalid(field, rule, text)
        if slash:
            check_split_name(split, field)
        return cls(check_dataset_name(name, field), int(number) if separator else None, split)

    def __str__(self) -> str:
        number = "" if self.number is None else f"@{self.number}"
        return f"{self.name}{number}{'/' if self.split else ''}{self.split}"


def policy_name(run_id: str, attempt: int) -> str:
    """The name under which an attempt of a run loads the policy that it trains in the rollout service. One that is over
    and lives on cannot touch that of the next."""
    return f"run-{run_id}-{attempt}"


def _invalid(field: str, rule: str, value: str | int) -> InvalidArgument:
    return invalid(field, f"{rule}; not {str(value)[:80]!r}")
