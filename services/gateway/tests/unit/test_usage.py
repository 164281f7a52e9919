"""What one key may use."""

from datetime import timedelta

import pytest

from gateway_service.domain.keys.caller import ANYBODY
from gateway_service.domain.keys.usage import KeyLimits, Usage
from ratchet_kit.errors import InvalidArgument, ResourceExhausted
from ratchet_testing import ManualClock


def test_requests_come_at_a_rate(clock: ManualClock) -> None:
    usage = Usage(KeyLimits(requests_per_minute=60), clock)
    for _ in range(60):
        with usage.admit(ANYBODY):
            pass
    with pytest.raises(ResourceExhausted) as refused, usage.admit(ANYBODY):
        pass
    assert refused.value.retry_after == timedelta(seconds=1)
    clock.advance(timedelta(seconds=1))
    with usage.admit(ANYBODY):
        pass


def test_requests_at_once_have_a_limit(clock: ManualClock) -> None:
    usage = Usage(KeyLimits(concurrent_requests=2), clock)
    with usage.admit(ANYBODY):
        with usage.admit(ANYBODY):
            with pytest.raises(ResourceExhausted), usage.admit(ANYBODY):
                pass
        with usage.admit(ANYBODY):
            pass


def test_tokens_are_paid_for_afterwards(clock: ManualClock) -> None:
    usage = Usage(KeyLimits(tokens_per_minute=600), clock)
    usage.require_tokens(ANYBODY)
    usage.spend(ANYBODY, 1_199)
    with pytest.raises(ResourceExhausted) as refused:
        usage.require_tokens(ANYBODY)
    assert refused.value.retry_after == timedelta(minutes=1)
    clock.advance(timedelta(minutes=1))
    usage.require_tokens(ANYBODY)


def test_without_limits_all_is_let_in(clock: ManualClock) -> None:
    usage = Usage(KeyLimits(0, 0, 0), clock)
    for _ in range(1000):
        with usage.admit(ANYBODY):
            usage.require_tokens(ANYBODY)
            usage.spend(ANYBODY, 10**9)


def test_a_request_counts_as_its_answers(clock: ManualClock) -> None:
    usage = Usage(KeyLimits(concurrent_requests=8), clock)
    with usage.admit(ANYBODY):
        with pytest.raises(InvalidArgument, match="9 answers at once, and one API key may have 8"):
            usage.require_answers(ANYBODY, 9)
        usage.require_answers(ANYBODY, 8)
        with usage.admit_more(ANYBODY, 5), usage.admit(ANYBODY):
            with pytest.raises(ResourceExhausted):
                usage.require_answers(ANYBODY, 3)
            with pytest.raises(ResourceExhausted), usage.admit_more(ANYBODY, 2):
                pass
            usage.require_answers(ANYBODY, 2)
        usage.require_answers(ANYBODY, 8)
