"""The ledger: what runs, evaluations and answers have used, and its sums by key, version or study."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from ratchet_kit import projects
from ratchet_kit.names import VersionRef
from ratchet_kit.times import Clock
from ratchet_kit.usage import Usage, total

MODEL = "models/"
"""The begin of an owner that is a model: "models/starter"."""
SHOWN = 1000
"""Accounts of an answer: the dearest."""
LATELY = timedelta(days=30)


class Kind(StrEnum):
    RUN = "run"
    EVALUATION = "evaluation"
    ANSWERS = "answers"
    STORED = "stored"


@dataclass(frozen=True, slots=True)
class Charge:
    """A run, an evaluation, the answers of a version to a key, or a version or data set that is stored."""

    kind: Kind
    id: str
    """It says whose project's it is: of answers the key's id, of what is stored its name."""
    actor: str
    """Id of the key that asked for it."""
    model: str = ""
    """The model that a run makes, or whose version was measured, answered or is stored."""
    version: str = ""
    """The version that a run made, or else its base; the one that was measured or answered: "starter@2"."""
    study: str = ""
    usage: Usage = field(default_factory=Usage)
    answers: int = 0
    size_bytes: int = 0

    @classmethod
    def of_answers(cls, key_id: str, version: VersionRef | None, answers: int, usage: Usage) -> "Charge":
        """`version`: None where it is not known."""
        model, name = (version.model, str(version)) if version else ("", "")
        return cls(Kind.ANSWERS, key_id, key_id, model, name, usage=usage, answers=answers)

    def is_of(self, owner: str) -> bool:
        """`owner`: a project, the id of a key, or a model ("models/starter")."""
        if owner.startswith(MODEL):
            return self.model == owner.removeprefix(MODEL)
        return self.actor == owner if "_" in owner else projects.owned_by(self.id, owner)


class Ledger(Protocol):
    """Lists of the other services, as the project of the present call sees them. Raises Unavailable."""

    async def entries(self, since: datetime) -> Sequence[Charge]:
        """Runs and evaluations that were created since then."""
        ...

    async def waiting(self) -> Sequence[Charge]:
        """Runs that wait or go on."""
        ...

    async def stored(self) -> Sequence[Charge]:
        """Versions and data sets."""
        ...


class Answers(Protocol):
    """Sums of the request log, which outlast its records."""

    async def answers(self, since: datetime) -> Sequence[Charge]:
        """Answers by key and version, from the begin of that day (UTC). Raises Unavailable."""
        ...


class By(StrEnum):
    VERSION = "version"
    KEY = "key"
    STUDY = "study"
    WORK = "work"
    """Each run and evaluation; answers by version."""


NAMES: Mapping[By, Callable[[Charge], str]] = {
    By.VERSION: lambda one: one.version,
    By.KEY: lambda one: one.actor,
    By.STUDY: lambda one: one.study,
    By.WORK: lambda one: f"answers of {one.version}" if one.kind is Kind.ANSWERS else one.id,
}


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    runs: int
    evaluations: int
    answers: int
    usage: Usage

    @classmethod
    def of(cls, name: str, entries: Sequence[Charge]) -> "Account":
        runs = sum(one.kind is Kind.RUN for one in entries)
        evaluations = sum(one.kind is Kind.EVALUATION for one in entries)
        return cls(name, runs, evaluations, sum(one.answers for one in entries), total(one.usage for one in entries))


@dataclass(frozen=True, slots=True)
class Sums:
    accounts: Sequence[Account]
    """The dearest first; without prices the one with most time of GPUs, then of processors."""
    whole: Account


def sums(entries: Iterable[Charge], by: By) -> Sums:
    found: dict[str, list[Charge]] = {}
    for one in entries:
        found.setdefault(NAMES[by](one) or "-", []).append(one)
    accounts = sorted((Account.of(name, each) for name, each in found.items()), key=_weight, reverse=True)
    return Sums(accounts[:SHOWN], Account.of("together", [one for each in found.values() for one in each]))


def _weight(one: Account) -> tuple[float, ...]:
    usage = one.usage
    tokens = usage.prompt_tokens + usage.completion_tokens
    return (usage.cost or 0.0, usage.gpu_time.total_seconds(), usage.cpu_time.total_seconds(), tokens)


class Costs:
    def __init__(self, ledger: Ledger | None, log: Answers, clock: Clock) -> None:
        """`ledger`: None counts answers alone."""
        self._ledger = ledger
        self._log = log
        self._clock = clock

    async def sums(self, by: By, since: datetime | None) -> Sums:
        """Sums what the present call sees; None: of the last 30 days. Raises Unavailable."""
        project, since = projects.current(), since or self._clock.now() - LATELY
        answers = [one for one in await self._log.answers(since) if not project or one.is_of(project)]
        others = await self._ledger.entries(since) if self._ledger else []
        return sums([*others, *answers], by)
