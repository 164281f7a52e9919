"""When a job has to end because it would learn from wrong data. Pure; each function raises with one sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

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


def check_versions(step: int, tags: Sequence[Mapping[str, Any]], ids: Mapping[int, str], max_staleness: int) -> bool:
    """Whether all samples are of the weights that learn from them. `tags`: of each sample, with its `policy_id` and the
    step after which the trainer had these weights; `ids`: of the weights after each step, as they were sent.

    Raises DataLoss for one of another policy id than that of its own weights, or of older weights than may be.
    """
    for tag in tags:
        version = tag["max_global_steps"]
        if not 0 <= step - 1 - version <= max_staleness:
            raise DataLoss(f"step {step}: a sample is of the weights after step {version}, which is too old")
        if tag["policy_id"] != (expected := ids.get(version)):
            raise DataLoss(
                f"step {step}: a sample is of {tag['policy_id']}, and the weights after step {version} are {expected}"
            )
    return all(tag["max_global_steps"] == step - 1 for tag in tags)


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
