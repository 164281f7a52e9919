from datetime import timedelta

import pytest

from ratchet_kit import retry
from ratchet_kit.errors import NotFound, Unavailable


class Flaky:
    """Raises `errors` in turn, then answers "done"."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)
        return "done"


async def test_a_transient_error_is_tried_again():
    call = Flaky(Unavailable("restarting"), Unavailable("restarting"))
    assert await retry.patiently(call, timedelta(seconds=10), "test") == "done"
    assert call.calls == 3


async def test_patience_ends_with_the_last_error():
    call = Flaky(*[Unavailable("down")] * 100)
    with pytest.raises(Unavailable, match="down"):
        await retry.patiently(call, timedelta(milliseconds=300), "test")
    assert 1 < call.calls < 10


async def test_other_errors_are_not_tried_again():
    call = Flaky(NotFound("no policy"))
    with pytest.raises(NotFound):
        await retry.patiently(call, timedelta(seconds=10), "test")
    assert call.calls == 1
