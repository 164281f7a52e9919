"""Signs of cheating: each report shows the signs that it holds, as one of few kinds."""

import signal
from dataclasses import replace
from datetime import timedelta

import pytest

from sandbox_service.domain import signs
from sandbox_service.domain.jobs import End, Report, Returned, Stage
from sandbox_service.domain.signs import Sign

LEFT = Report(End.EXITED, 0, Stage.LOADED, timedelta(), timedelta(), "scripted")
ENDED = replace(LEFT, stage=Stage.ENDED)


@pytest.mark.parametrize(
    ("report", "sign", "text"),
    [
        (LEFT, Sign.EARLY_EXIT, "status 0"),
        (replace(LEFT, exit_status=-signal.SIGSYS), Sign.FORBIDDEN_SYSTEM_CALL, "system call"),
        (replace(ENDED, answers=(Returned(object(), "int"),)), Sign.DISGUISED_OBJECT, "own type named 'int'"),
    ],
)
def test_a_report_shows_a_sign_and_says_it_in_words(report: Report, sign: Sign, text: str) -> None:
    (sighting,) = signs.of(report)
    assert sighting.sign is sign
    assert text in str(sighting)


def test_an_honest_report_shows_none() -> None:
    assert signs.of(ENDED) == ()
    assert signs.of(replace(LEFT, exit_status=1)) == ()
    assert signs.of(replace(ENDED, answers=(Returned(object(), "Point"),))) == ()


def test_unasked_bytes_are_quoted() -> None:
    assert signs.unasked_bytes("unasked bytes: b'x'") == signs.Sighting(Sign.UNASKED_BYTES, "unasked bytes: b'x'")
