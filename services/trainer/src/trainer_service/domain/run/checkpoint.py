"""A model that a run has exported, and which of them is the best."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.statistics import Estimate
from trainer_service.domain.spec.spec import Keep

SCORE = "validation_score"
"""The metric of a step that has the score of its checkpoint."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An exported model."""

    step: int
    uri: str
    """Its folder; empty: it was deleted."""
    policy_id: str
    create_time: datetime
    validation_score: float | None = None
    """Higher is better; None when it was not validated."""
    validation: Estimate | None = None
    """The score with its interval; None where it has none."""
    evaluation_id: str = ""
    """The evaluation that measures it; empty until there is one."""
    unscored: str = ""
    """The reason that an evaluation gives it no score; empty while one is to come."""

    @property
    def is_scored(self) -> bool:
        return self.validation_score is not None

    @property
    def awaits_score(self) -> bool:
        """True where an evaluation is to score it; means nothing where the job validates."""
        return not self.is_scored and not self.unscored

    @property
    def metrics(self) -> dict[str, float]:
        """Its score, as its step's metrics have it."""
        if self.validation_score is None:
            return {}
        sure = self.validation
        return {SCORE: self.validation_score} | ({f"{SCORE}_low": sure.low, f"{SCORE}_high": sure.high} if sure else {})

    def measured_by(self, evaluation_id: str, uri: str) -> "Checkpoint":
        """An evaluation of the export at `uri` was created. Again by the same, it changes nothing."""
        self._require(uri)
        if self.evaluation_id != evaluation_id:
            self._require_open()
        return replace(self, evaluation_id=evaluation_id)

    def scored(self, score: Estimate, uri: str) -> "Checkpoint":
        self._require(uri)
        self._require_open()
        return replace(self, validation_score=score.value, validation=score)

    def left_unscored(self, reason: str, uri: str) -> "Checkpoint":
        self._require(uri)
        self._require_open()
        return replace(self, unscored=reason)

    def deleted(self, uri: str) -> "Checkpoint":
        """The export at `uri` is gone."""
        self._require(uri)
        return replace(self, uri="")

    def _require(self, uri: str) -> None:
        if self.uri != uri:
            raise FailedPrecondition(f"the checkpoint of step {self.step} was made again by another attempt")

    def _require_open(self) -> None:
        if not self.awaits_score:
            raise FailedPrecondition(f"the checkpoint of step {self.step} has its score, or gets none")


def superseded(checkpoints: Sequence[Checkpoint], keep: Keep) -> list[Checkpoint]:
    """Checkpoints whose models are there and not to be kept, in order of their steps. The best one is always kept."""
    there = sorted((c for c in checkpoints if c.uri), key=lambda c: c.step)
    ranked = sorted((c for c in there if c.is_scored), key=lambda c: (c.validation_score or 0.0, c.step))
    newest = there[-keep.last :] if keep.last else []
    kept = {c.step for c in (*newest, *ranked[-keep.best :], *filter(None, [best(there)]))}
    return [c for c in there if c.step not in kept]


def best(checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """The one that validated best, the later of equals; where none was validated, the last. Of those that are there."""
    checkpoints = [c for c in checkpoints if c.uri]
    validated = [c for c in checkpoints if c.is_scored]
    if validated:
        return max(validated, key=lambda c: (c.validation_score or 0.0, c.step))
    return max(checkpoints, key=lambda c: c.step, default=None)
