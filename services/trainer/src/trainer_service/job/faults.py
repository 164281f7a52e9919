"""When a run must not go on: what it would learn from is not what it thinks. Pure; each raises one clear sentence."""

from ratchet_kit.errors import DataLoss, FailedPrecondition


def check_probabilities(step: int, gap: float, limit: float) -> None:
    """`gap`: mean |p_train - p_rollout| of the sampled tokens. Raises DataLoss above `limit`, and for NaN.

    The engine then has other weights than the trainer, whatever it says: 1e-9 to 1e-5 is what two right float32
    implementations differ by, 0.2 was seen with a stale output layer.
    """
    if not gap <= limit:
        raise DataLoss(
            f"step {step}: the rollout engine does not compute with the trained weights: token probabilities differ by"
            f" {gap:.4f} on average, more than {limit}"
        )


def check_faults(step: int, lost: int, expected: int, limit: float, reason: str) -> None:
    """Raises FailedPrecondition when the platform failed more than the share `limit` of the `expected` samples."""
    if lost > limit * expected:
        raise FailedPrecondition(
            f"step {step}: the platform failed {lost} of {expected} samples, more than {limit:.0%}:"
            f" {reason or 'no reason was given'}"
        )
