"""What was looked at: every evaluation that measured the same problems. Gates count them."""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime

from eval_service.domain.comparison import setup_of
from eval_service.domain.evaluation import Evaluation


@dataclass(frozen=True, slots=True)
class Measurement:
    """An evaluation that measured some of the problems in question. It outlives the evaluation's deletion."""

    evaluation_id: str
    model: str
    """Its name in the registry; empty: measured by its path."""
    policy_id: str
    start_time: datetime
    setup: str
    """Evaluations of one setup can be compared."""
    draw: str
    """Those of one draw have the very same samples: nothing new is seen."""
    problems: int = 0
    """How many of the problems in question it measured."""

    def kept(self) -> "Measurement":
        """Once its samples, or their texts, are gone: the same asked for again is drawn anew."""
        return replace(self, draw=self.evaluation_id)


def measurement_of(evaluation: Evaluation, problems: int = 0) -> Measurement | None:
    """None where nothing was measured yet, and for imported samples: nobody knows whose they are."""
    spec = evaluation.spec
    if spec.model is None or evaluation.start_time is None or not evaluation.policy_id:
        return None
    setup = _hashed(setup_of(spec))
    samples = (evaluation.policy_id, evaluation.settings_id, setup, spec.seed, spec.samples_per_problem)
    return Measurement(
        evaluation.id,
        spec.model_name,
        evaluation.policy_id,
        evaluation.start_time,
        setup,
        _hashed(samples) if spec.environment is None else evaluation.id,  # episodes are run anew
        problems,
    )


def _hashed(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
