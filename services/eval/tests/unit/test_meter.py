"""What boards and alerts count is there before it first happens."""

import pytest
from prometheus_client import REGISTRY

from eval_service.adapters.meter import PrometheusMeter


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("ratchet_eval_evaluations_total", {"state": "failed"}),
        ("ratchet_eval_samples_total", {"verdict": "TAMPERED"}),
    ],
)
def test_the_first_event_is_an_increase(name: str, labels: dict[str, str]) -> None:
    PrometheusMeter()
    assert REGISTRY.get_sample_value(name, labels) is not None
