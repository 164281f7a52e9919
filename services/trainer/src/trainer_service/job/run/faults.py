"""When a job has to end because it would learn from wrong data. Pure; each function raises with one sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

from ratchet_kit.errors import DataLoss, InvalidArgument, RatchetError, Unavailable
from trainer_service.domain.spec.spec import ProblemSetRef


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
    """True where all samples are of the weights that learn from them. `tags`: of each sample, with the `weights` of its
    tokens: the step after which the trainer had them, and their policy id; `ids`: of the weights after each step, as
    they were sent.

    Raises DataLoss for tokens of another policy id than that of their weights, or of older weights than may be.
    """
    weights = {(version, policy_id) for tag in tags for version, policy_id in tag["weights"]}
    for version, policy_id in sorted(weights):
        if not 0 <= step - 1 - version <= max_staleness:
            raise DataLoss(f"step {step}: a sample is of the weights after step {version}, which is too old")
        if policy_id != (expected := ids.get(version)):
            raise DataLoss(
                f"step {step}: a sample is of {policy_id}, and the weights after step {version} are {expected}"
            )
    return all(version == step - 1 for version, _ in weights)


def check_data(ref: ProblemSetRef, digest: str) -> None:
    """`digest`: of what was read just now. Raises DataLoss when it is not what the run was created with, and what its
    lineage says."""
    if ref.digest and digest != ref.digest:
        raise DataLoss(
            f"{ref.name} has changed since the run was created: it was {ref.digest} and is {digest}; create another run"
        )


MAX_CUT_OFF = 0.5
"""Share of a step's episodes."""


def check_cut_off(step: int, cut_off: int, expected: int) -> None:
    """Raises InvalidArgument when more than half of the `expected` episodes were not over in the time of their tasks:
    what is left would teach to be quick."""
    if cut_off > MAX_CUT_OFF * expected:
        raise InvalidArgument(
            f"step {step}: {cut_off} of {expected} episodes were cut off by the time of their tasks, more than"
            f" {MAX_CUT_OFF:.0%}: give the tasks more time, or the policy fewer turns or tokens"
        )


def check_faults(
    step: int, lost: int, expected: int, limit: float, fault: RatchetError | None, has_stepped: bool
) -> None:
    """Raises when more than the share `limit` of the `expected` samples was lost, the last one to `fault`.

    It is Unavailable: the next attempt repeats the step, on a platform that may be whole again. It is InvalidArgument
    where the fault is one (a reward of one's own, say) and the attempt has not done a step yet: the next would meet it
    again.
    """
    if lost <= limit * expected:
        return
    kind = InvalidArgument if isinstance(fault, InvalidArgument) and not has_stepped else Unavailable
    reason = fault.message if fault else "no reason was given"
    raise kind(f"step {step}: {lost} of {expected} samples are lost, more than {limit:.0%}: {reason}")
