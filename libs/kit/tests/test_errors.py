import pytest

from ratchet_kit import errors
from ratchet_kit.errors import Failure


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidArgument("x"), "INVALID_ARGUMENT"),
        (errors.DataLoss("x"), "DATA_LOSS"),
        (errors.Unavailable("x"), "UNAVAILABLE"),
        (type("Gone", (errors.NotFound,), {"__module__": "elsewhere"})("x"), "NOT_FOUND"),
    ],
)
def test_a_failure_keeps_the_kind_and_the_sentence(error, code):
    assert Failure.of(error) == Failure(code, "x")
