"""An experiment offline: stored prompts that every variant answers."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway_service.domain.traffic.record import ProblemRef
from ratchet_kit import projects
from ratchet_kit.faults import Faults
from ratchet_policies import Prompt, Sampling

MAX_PROMPTS = 2_000
MAX_ANSWERS = 16
"""Maximum number of answers to one prompt by one variant; together they are one answer to the experiment."""


@dataclass(frozen=True, slots=True)
class Replay:
    """How prompts are answered, and which ones where none are given: the latest of kept traffic."""

    sampling: Sampling = field(default_factory=Sampling)
    latest: int = 0
    """0: the prompts are given."""
    key_id: str = ""
    """Only of this API key, when set."""


@dataclass(frozen=True, slots=True)
class ReplayPrompt:
    """A prompt that was given, or that of an exchange: it is read when its turn comes, and may be forgotten by then."""

    prompt: Prompt | None = None
    exchange_id: str = ""
    problem: ProblemRef | None = None
    """Its tests score the answers."""


def check_prompts(replay: Replay | None, prompts: Sequence[ReplayPrompt]) -> None:
    """Raises InvalidArgument unless they are given where they are needed, and only there."""
    faults = Faults()
    if replay is None:
        faults.unless(not prompts, "prompts", "must be empty: they are for spec.replay")
    elif replay.latest:
        faults.unless(not prompts, "prompts", "must be empty: spec.replay.latest takes those of kept traffic")
    else:
        rule = f"must be from 1 to {MAX_PROMPTS}, or spec.replay.latest must be set"
        faults.unless(1 <= len(prompts) <= MAX_PROMPTS, "prompts", rule)
    faults.raise_if_any()


def answer_id(experiment_id: str, number: int, variant: str) -> str:
    """Id of the answer's record: always the same, so that no answer is stored twice, whoever makes it."""
    digest = hashlib.sha256(f"{experiment_id}\n{number}\n{variant}".encode()).hexdigest()
    project = projects.project_of(experiment_id)
    return f"cmpl_{digest[:26].upper()}-{project}" if project else f"cmpl_{digest[:32]}"
