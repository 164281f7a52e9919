"""What is offered of pytest's fixtures is what the reader of test code lets pass."""

from sandbox_service.cage.own_pytest import fixtures
from sandbox_service.cage.test_code import comparisons


def test_all_that_is_offered_may_be_used() -> None:
    assert fixtures.OFFERED.keys() | {"request"} == comparisons.FIXTURES
