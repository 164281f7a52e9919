"""A line of the request log: releases are judged by these, and feedback is attached to them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ratchet_kit.names import VersionRef

MAX_KEPT_TEXT = 64 * 1024
"""Characters; longer answers are not kept for grading."""


class Arm(StrEnum):
    """NONE: no release decided. FALLBACK: the baseline answered in place of a candidate that failed the request."""

    NONE = "none"
    BASELINE = "baseline"
    CANDIDATE = "candidate"
    FALLBACK = "fallback"


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
