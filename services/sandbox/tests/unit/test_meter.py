"""What the meter counts for Prometheus."""

from datetime import timedelta

import pytest
from prometheus_client import REGISTRY

from sandbox_service.adapters.meter import PrometheusMeter
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.signs import Sighting, Sign


def _signs(sign: str) -> float:
    return REGISTRY.get_sample_value("ratchet_sandbox_signs_total", {"sign": sign}) or 0.0


@pytest.mark.parametrize("sign", Sign)
def test_signs_are_counted_by_kind_whatever_their_words(sign: Sign) -> None:
    meter, before = PrometheusMeter(), _signs(sign.value)
    zero = timedelta()
    words = Sighting(sign, "what a program wrote")
    meter.executed(Execution("p", Verdict.FAILED, (), 1, "", "", zero, zero, "scripted", signs=(words,)), zero, zero)
    assert _signs(sign.value) == before + 1
