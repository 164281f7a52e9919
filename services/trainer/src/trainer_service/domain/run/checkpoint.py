"""A model that a run has exported, and which of them is the best."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ratchet_kit.statistics import Estimate


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An exported model."""

    step: int
    uri: str
    """Its folder."""
    policy_id: str
    create_time: datetime
    validation_score: float | None = None
    """Higher is better; None when it was not validated."""
    validation: Estimate | None = None
    """The score with its interval; None where it has none."""


def best(checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """The one that validated best, the later of equals; where none was validated, the last."""
    validated = [c for c in checkpoints if c.validation_score is not None]
    if validated:
        return max(validated, key=lambda c: (c.validation_score or 0.0, c.step))
    return max(checkpoints, key=lambda c: c.step, default=None)
