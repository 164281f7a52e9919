"""Which variant a unit gets: by a hash of its name, so that every gateway gives it the same one, and always."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway_service.domain.experiments.experiment import Experiment, State, Variant
from gateway_service.domain.traffic.record import Unit


@dataclass(frozen=True, slots=True)
class Assignment:
    """A request's place in an experiment."""

    experiment: Experiment
    variant: Variant
    unit: str
    """The unit's id, as it is recorded."""


def assign(experiments: Iterable[Experiment], units: Mapping[Unit, str]) -> Assignment | None:
    """The request's place in the first of the experiments that takes its unit; None when none does.

    `units`: what the request has of each kind, as `unit_id` gives it. The experiments stand in the order of their
    starts, so that a newer one never takes a unit from an older one: a unit is in at most one. One that is paused keeps
    its units out of the others.
    """
    for experiment in experiments:
        unit = units.get(experiment.spec.unit, "")
        if unit and place(f"{experiment.id}/in", unit) < experiment.spec.traffic:
            if experiment.state is not State.RUNNING:
                return None
            return Assignment(experiment, _variant(experiment, unit), unit)
    return None


def place(salt: str, unit: str) -> float:
    """A uniform number in [0, 1), fixed for the pair: the first 53 bits of sha256, as many as a float holds."""
    digest = hashlib.sha256(f"{salt}\n{unit}".encode()).digest()
    return (int.from_bytes(digest[:8]) >> 11) / (1 << 53)


def _variant(experiment: Experiment, unit: str) -> Variant:
    variants = experiment.spec.variants
    left = place(f"{experiment.id}/variant", unit) * sum(variant.weight for variant in variants)
    for variant in variants:
        left -= variant.weight
        if left < 0:
            return variant
    return variants[-1]
