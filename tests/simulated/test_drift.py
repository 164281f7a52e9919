"""`tests/bench/simulated_drift.py` in small, with seeds: a month that stays as it is has no notice, and what gets worse
on a day has one by the next."""

import pytest

from tests.bench.simulated_drift import WORSE, Kind, false_alarms, noticed

MONTHS = 30


def test_a_quiet_month_has_no_notice() -> None:
    assert false_alarms(MONTHS) <= 0.05 * MONTHS


@pytest.mark.parametrize("kind", WORSE, ids=lambda kind: kind.name)
def test_what_gets_worse_is_noticed_by_the_next_day(kind: Kind) -> None:
    assert noticed(kind, 5) == 5
