"""Redactions by their names, operators' own too, and that keys of this gateway are known."""

import pytest

from gateway_service.adapters import redactions
from gateway_service.domain.keys.key import new_secret
from gateway_service.domain.traffic.redaction import Redaction
from ratchet_kit.errors import FailedPrecondition, Internal


def test_a_key_of_ours_goes() -> None:
    assert redactions.KEPT["secrets"](f"key = {new_secret()}") == "key = <secret>"


def upper(text: str) -> str:
    return text.upper()


def no_text(text: str) -> int:
    return len(text)


NOT_A_FUNCTION = 3


async def test_an_operators_own_function_takes_its_turn() -> None:
    steps = redactions.steps(["emails", f"{__name__}:upper"])
    assert await Redaction(steps).text("of ann@example.com") == "OF <EMAIL>"


@pytest.mark.parametrize("name", ["names", "no.such.module:f", f"{__name__}:nothing", f"{__name__}:NOT_A_FUNCTION", ""])
def test_a_name_that_leads_nowhere(name: str) -> None:
    with pytest.raises(FailedPrecondition, match="RATCHET_GATEWAY_REDACT"):
        redactions.steps([name])


async def test_what_gives_no_text_is_a_fault_that_quotes_nothing() -> None:
    for step in (no_text, lambda text: "\ud800", lambda text: {}[text]):
        with pytest.raises(Internal) as failed:
            await Redaction([step]).text("a secret")  # type: ignore[list-item]
        assert "a secret" not in str(failed.value)
