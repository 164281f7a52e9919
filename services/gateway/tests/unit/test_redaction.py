"""What the redactions that are kept here take out of a text, and operators' own."""

import time

import pytest

from gateway_service.adapters import redaction
from gateway_service.domain.keys.key import new_secret
from gateway_service.domain.traffic.redaction import Redaction
from ratchet_kit.errors import FailedPrecondition, Internal

PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEpAIBAAKCAQEA7\nabc=\n-----END RSA PRIVATE KEY-----"
)


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("mail ann@example.com, or Bob.B+tag@mail.example.co.uk!", "mail <email>, or <email>!"),
        ("<ann@example.com>", "<<email>>"),
        ("jürgen@bücher.example", "<email>"),
        ("@dataclass def f(a @ b): x@y", "@dataclass def f(a @ b): x@y"),
        ("no address", "no address"),
    ],
)
def test_emails(text: str, without: str) -> None:
    assert redaction.emails(text) == without


@pytest.mark.parametrize(
    "secret",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_" + "a1B2" * 9,
        "xoxb-" + "123456789012-1234567890123-" + "abcdefABCDEF123456789012",
        "sk_live_" + "abcd1234" * 3,
        pytest.param(new_secret(), id="an API key of ours"),
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
        "npm_" + "a1B2" * 9,
        "12345678:" + "a1B2-" * 7,
    ],
)
def test_secrets(secret: str) -> None:
    text = f'key = "{secret}"\nprint(key)  # {secret}'
    without = redaction.secrets(text)
    assert secret not in without
    assert without == text.replace(secret, "<secret>")


def test_a_private_key_goes_whole() -> None:
    assert redaction.secrets(f"before\n{PEM}\nafter") == "before\n<secret>\nafter"
    assert "MIIE" not in redaction.secrets(PEM[:70])  # cut off


def test_a_password_in_a_url_goes_with_the_name_before_it() -> None:
    for password in ("hunter22", "a"):
        without = redaction.secrets(f"a\nGET https://ann:{password}@example.com/\nb a")
        assert without == "a\nGET https<secret>example.com/\nb a"


def test_code_stays_as_it_is() -> None:
    code = (
        'def solve(xs):\n    """Sum of xs."""\n    total = 0\n    for x in xs:\n        total += x\n    return total\n'
    )
    assert redaction.secrets(redaction.emails(code)) == code


@pytest.mark.parametrize(
    "piece", ["a", "a@", "@", "a.", "-----BEGIN PRIVATE KEY-----", "://a:", "eyJ", "\n", "AKIA", "ä"]
)
def test_long_texts_take_no_longer_than_their_length(piece: str) -> None:
    text = piece * (128 * 1024 // len(piece))
    start = time.process_time()
    redaction.secrets(redaction.emails(text))
    assert time.process_time() - start < 2


def upper(text: str) -> str:
    return text.upper()


def no_text(text: str) -> int:
    return len(text)


NOT_A_FUNCTION = 3


async def test_an_operators_own_function_takes_its_turn() -> None:
    steps = redaction.steps(["emails", f"{__name__}:upper"])
    assert await Redaction(steps).text("of ann@example.com") == "OF <EMAIL>"


@pytest.mark.parametrize("name", ["names", "no.such.module:f", f"{__name__}:nothing", f"{__name__}:NOT_A_FUNCTION", ""])
def test_a_name_that_leads_nowhere(name: str) -> None:
    with pytest.raises(FailedPrecondition, match="RATCHET_GATEWAY_REDACT"):
        redaction.steps([name])


async def test_what_gives_no_text_is_a_fault_that_quotes_nothing() -> None:
    for step in (no_text, lambda text: "\ud800", lambda text: {}[text]):
        with pytest.raises(Internal) as failed:
            await Redaction([step]).text("a secret")  # type: ignore[list-item]
        assert "a secret" not in str(failed.value)
