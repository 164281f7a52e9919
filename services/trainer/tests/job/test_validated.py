"""The interval of a validation's score."""

from collections.abc import Sequence

import pytest

from ratchet_kit.statistics import wilson
from ratchet_problems import Problem
from trainer_service.job.run.validated import interval


def problems(*families: str) -> Sequence[Problem]:
    return [
        Problem(f"p{place}", "Do it.", (), references=("pass",), structure=family)
        for place, family in enumerate(families)
    ]


def test_problems_are_what_is_counted_and_those_of_one_family_together() -> None:
    apart = interval(problems(*[""] * 40), [[1.0]] * 10 + [[0.0]] * 30)
    assert apart is not None
    binomial = wilson(0.25, 40, 1.96)
    assert (apart.low, apart.high) == pytest.approx((binomial.low, binomial.high), abs=0.01)
    alike = interval(problems(*"abcdefghij" * 4), ([[1.0]] * 3 + [[0.0]] * 7) * 4)
    assert alike is not None
    assert alike.high - alike.low > 1.5 * (apart.high - apart.low), "ten families, not forty problems"


def test_what_nobody_knows_has_no_interval() -> None:
    assert interval(problems("", ""), [[], []]) is None, "the platform failed all"
    assert interval(problems("", ""), [[0.5], [-0.5]]) is None, "a reward below 0"
    one = interval(problems("", ""), [[1.0, 1.0], []])
    assert one is not None
    assert (one.value, one.low, one.high) == (1.0, 0.0, 1.0), "one problem says nothing of others"
