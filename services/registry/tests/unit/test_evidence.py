"""Tries are paid for."""

import pytest

from registry_service.domain.evidence import confidence_of


def test_the_first_try_is_at_95_and_all_later_ones_together_cost_as_much() -> None:
    assert [confidence_of(tries) for tries in (0, 1, 2, 3)] == pytest.approx([0.95, 0.95, 0.975, 0.99167], abs=1e-5)
    errors = [1 - confidence_of(tries) for tries in range(1, 10_000)]
    assert sum(errors) == pytest.approx(0.1, abs=1e-4)
    assert errors == sorted(errors, reverse=True)
