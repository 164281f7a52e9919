"""Metrics by policy: as many series as there are policies, not as there ever were."""

from prometheus_client import REGISTRY

from rollout_service.adapters.meter import PrometheusMeter
from rollout_service.domain.policy import PolicyName


def series() -> list[str]:
    samples = [sample for metric in REGISTRY.collect() for sample in metric.samples]
    return [sample.name for sample in samples if sample.labels.get("policy", "").startswith("run-")]


def test_a_policy_that_is_gone_leaves_no_series() -> None:
    meter = PrometheusMeter()
    for number in range(3):
        meter.generated(PolicyName(f"run-{number}"), 10, 20, 0.5)
        meter.engine_died(PolicyName(f"run-{number}"), hung=True)
    assert series()
    for number in range(3):
        meter.unloaded(PolicyName(f"run-{number}"))
        meter.unloaded(PolicyName(f"run-{number}"))
    assert series() == []


def test_the_first_death_of_an_engine_is_an_increase() -> None:
    meter = PrometheusMeter()
    meter.busy(PolicyName("run-first"), 1)
    assert REGISTRY.get_sample_value("ratchet_rollout_engine_deaths_total", {"policy": "run-first"}) == 0
    meter.unloaded(PolicyName("run-first"))
