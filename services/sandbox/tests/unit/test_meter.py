import pytest

from sandbox_service.adapters.meter import kind_of_sign


@pytest.mark.parametrize(
    ("sign", "kind"),
    [
        ("unasked bytes on the result channel: b'[\"forged\"]'", "unasked bytes"),
        ("unasked bytes on the channel to the tests", "unasked bytes"),
        ("made a system call that the cage forbids", "forbidden system call"),
        ("answered with an object of its own type named 'int'", "disguised object"),
        ("what a program wrote", "other"),
        ("", "other"),
    ],
)
def test_a_sign_is_one_of_few_kinds(sign: str, kind: str) -> None:
    assert kind_of_sign(sign) == kind
