"""When a job has to end because it would learn from wrong data. Pure; each function raises with one sentence."""

from ratchet_kit.errors import DataLoss, Unavailable
from trainer_service.domain.spec import ProblemSetRef


def check_probabilities(step: int, gap: float, limit: float) -> None:
    """`gap`: mean |p_train - p_rollout| of the sampled tokens. Raises DataLoss above `limit`, and for NaN.

    The engine then has other weights than the trainer, even if their ids agree. Two correct float32 implementations
    differ by 1e-9 to 1e-5; a stale output layer made 0.2.
    """
    if not gap <= limit:
        raise DataLoss(
            f"step {step}: the rollout engine does not compute with the trained weights: token probabilities differ by"
            f" {gap:.4f} on average, more than {limit}"
        )


def check_data(ref: ProblemSetRef, digest: str) -> None:
    """`digest`: of what was read just now. Raises DataLoss when it is not what the run was created with, and what its
    lineage says."""
    if ref.digest and digest != ref.digest:
        raise DataLoss(
            f"{ref.name} has changed since the run was created: it was {ref.digest} and is {digest}; create another run"
        )


def check_faults(step: int, lost: int, expected: int, limit: float, reason: str) -> None:
    """Raises Unavailable when the platform failed more than the share `limit` of the `expected` samples: the next
    attempt repeats the step, on a platform that may be whole again."""
    if lost > limit * expected:
        raise Unavailable(
            f"step {step}: the platform failed {lost} of {expected} samples, more than {limit:.0%}:"
            f" {reason or 'no reason was given'}"
        )
