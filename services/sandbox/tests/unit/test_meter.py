import signal
from datetime import timedelta

import pytest

from sandbox_service.adapters.meter import kind_of_sign
from sandbox_service.domain.grading import signs
from sandbox_service.domain.ports import End, Report, Stage


@pytest.mark.parametrize(
    ("sign", "kind"),
    [
        ("unasked bytes on the result channel: b'[\"forged\"]'", "unasked bytes"),
        ("unasked bytes on the channel to the tests", "unasked bytes"),
        ("answered with an object of its own type named 'int'", "disguised object"),
        ("what a program wrote", "other"),
        ("", "other"),
    ],
)
def test_a_sign_is_one_of_few_kinds(sign: str, kind: str) -> None:
    assert kind_of_sign(sign) == kind


def test_a_forbidden_system_call_is_a_kind_of_its_own() -> None:
    report = Report(End.EXITED, -signal.SIGSYS, Stage.LOADED, timedelta(), timedelta(), "scripted")
    assert [kind_of_sign(sign) for sign in signs(report)] == ["forbidden system call"]
