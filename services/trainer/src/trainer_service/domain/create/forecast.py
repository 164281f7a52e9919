"""What a run is expected to take: counted from its base's shape by `footprint`. `defaults` chooses passes by it, and
callers see it."""

from datetime import timedelta

from ratchet_kit.errors import FailedPrecondition
from trainer_service.domain.create.memory import MOST_TOKENS, Training, scoring_bytes, too_large
from trainer_service.domain.inputs.found import Found
from trainer_service.domain.run.run import Forecast
from trainer_service.domain.spec.algorithms import ALGORITHMS, Algorithm
from trainer_service.domain.spec.limits import Limits
from trainer_service.domain.spec.spec import Hyperparameters, Resources, RunSpec


def training(
    hyper: Hyperparameters, algorithm: Algorithm, resources: Resources, found: Found, limits: Limits
) -> Training | None:
    """What memory is counted from; None where the base's shape is not known, or the device."""
    base, scored_by = found.base, found.reward_model
    if base is None or base.shape is None or resources.device not in MOST_TOKENS:
        return None
    return Training.of(
        base.shape,
        hyper,
        resources.ranks,
        resources.ranks_per_node,
        resources.device,
        limits.activation_bytes,
        algorithm.has_critic,
        algorithm.takes_pairs,
        scoring_bytes(scored_by.shape, scored_by.size_bytes, limits.activation_bytes) if scored_by else 0,
    )


def forecast_of(spec: RunSpec, found: Found, limits: Limits) -> Forecast | None:
    """Of a complete and valid spec. Raises FailedPrecondition where it cannot fit: the numbers, and what to change."""
    hyper = spec.hyperparameters
    counted = training(hyper, ALGORITHMS[spec.algorithm], spec.resources, found, limits)
    if counted is None:
        return None
    peak, limit = counted.bytes(spec.passes()), limits.memory_bytes
    if limit is not None and peak > limit:
        raise FailedPrecondition(too_large(counted, spec.passes(), limit))
    again = bool(hyper.kl_in_reward) or hyper.mini_batch_size not in (None, hyper.batch_size)
    seconds = counted.step_seconds(hyper.samples, spec.passes(), again, limits.cores)
    return Forecast(peak, limit, None if seconds is None else timedelta(seconds=round(seconds, 1)))
