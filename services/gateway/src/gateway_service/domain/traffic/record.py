"""A line of the request log: releases are judged by these, and feedback is attached to them."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from gateway_service.domain.keys.costs import Charge
from gateway_service.domain.traffic.material import Material
from gateway_service.domain.traffic.metrics import Metrics
from ratchet_kit import projects
from ratchet_kit.names import VersionRef
from ratchet_kit.usage import Prices, Usage, priced

MAX_KEPT_TEXT = 64 * 1024
"""Characters; longer answers are not kept for grading."""


class Arm(StrEnum):
    """NONE: no release decided. FALLBACK: the baseline answered in place of a candidate that failed the request.
    REPLAY: nobody requested it, an experiment replays stored prompts."""

    NONE = "none"
    BASELINE = "baseline"
    CANDIDATE = "candidate"
    FALLBACK = "fallback"
    REPLAY = "replay"


class Unit(StrEnum):
    """What an experiment assigns to its variants.

    USER: who a request says it is for, its routing key; KEY: the API key; REQUEST: each by itself.
    """

    USER = "user"
    SESSION = "session"
    KEY = "key"
    REQUEST = "request"


def unit_id(unit: Unit, name: str) -> str:
    """How a unit is known and recorded: by a digest, since users' names are private; empty for no name. Users and
    sessions are their project's."""
    if name and unit in (Unit.USER, Unit.SESSION):
        name += projects.suffix()
    return hashlib.sha256(f"{unit}\n{name}".encode()).hexdigest()[:32] if name else ""


@dataclass(frozen=True, slots=True)
class ProblemRef:
    """A problem with tests."""

    problem_set: str
    """Such as "composed/test"."""
    problem_id: str
    """Its id in the set."""


@dataclass(frozen=True, slots=True)
class CompletionRecord:
    """One attempt to answer a request by one version."""

    id: str
    start_time: datetime
    """When the request came."""
    version: VersionRef
    arm: Arm
    latency: timedelta
    """From the request to the last token."""
    release_id: str = ""
    stage: int = 0
    policy_id: str = ""
    error: str = ""
    """One sentence; empty when answered."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    texts: tuple[str, ...] = ()
    """The answer, one text per choice. Dropped once it is scored or old; never kept when too long."""
    score: float | None = None
    """In [0, 1]; None while unscored."""
    problem: ProblemRef | None = None
    """The problem whose tests gave the score."""
    metrics: Metrics = field(default_factory=dict)
    """What feedback measured, by the application's names."""
    experiment_id: str = ""
    variant: str = ""
    """Of the experiment; empty without one."""
    unit: str = ""
    """Which unit the request is of: the experiment's kind of unit, or its user where no experiment has it."""
    left: bool = False
    """The caller left before the end: that says nothing of the version, but that it took `latency` at least."""
    key_id: str = ""
    """Of the API key that asked."""
    user: str = ""
    """Who asked, by `unit_id`, whatever unit an experiment has; so is the session."""
    session: str = ""
    slow_after: timedelta | None = None
    """Of a release: a longer latency is slow. Not read again: the sums have it."""
    material: Material | None = None
    """What the key's consent keeps; then there are no `texts`. It is stored apart: no record that is read has it."""

    @property
    def slow(self) -> bool | None:
        """None where it is not known: of a failure, or a caller who left before."""
        if self.slow_after is None or self.error:
            return None
        is_slow = self.latency > self.slow_after
        return None if self.left and not is_slow else is_slow


def answers_of(records: Iterable[CompletionRecord], prices: Prices | None) -> Sequence[Charge]:
    """Sums for the ledger, by key and version, at the operator's prices of now."""
    found: dict[tuple[str, VersionRef], list[CompletionRecord]] = {}
    for one in records:
        found.setdefault((one.key_id, one.version), []).append(one)
    return [
        Charge.of_answers(
            key_id,
            version,
            len(each),
            priced(
                Usage(
                    prompt_tokens=sum(one.prompt_tokens for one in each),
                    completion_tokens=sum(one.completion_tokens for one in each),
                ),
                prices,
            ),
        )
        for (key_id, version), each in found.items()
    ]
