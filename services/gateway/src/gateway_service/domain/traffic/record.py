"""The request log: what each request got, kept so that releases are judged by it and feedback finds it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from gateway_service.domain.routing import Arm
from gateway_service.domain.targets import VersionRef

# Longer answers are not kept for grading.
MAX_KEPT_TEXT = 64 * 1024


@dataclass(frozen=True)
class ProblemRef:
    """A problem with tests: the set it is in ("composed/test") and its id there."""

    problem_set: str
    problem_id: str


@dataclass(frozen=True)
class CompletionRecord:
    """One attempt to answer a request by one version.

    `latency`: from the request to the last token. `error`: one sentence, empty when answered. `texts`: the answer,
    one per choice, until it is scored or too old; empty when too long. `score`: in [0, 1], None while unscored.
    """

    id: str
    time: datetime
    version: VersionRef
    arm: Arm
    latency: timedelta
    release_id: str = ""
    stage: int = 0
    policy_id: str = ""
    error: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    texts: tuple[str, ...] = ()
    score: float | None = None
    problem: ProblemRef | None = None
