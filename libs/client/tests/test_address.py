"""Where a client looks for the platform."""

import json
from pathlib import Path

import pytest

from ratchet_client import Client, Unreachable, address
from ratchet_client.address import Address


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("RATCHET_URL", raising=False)
    monkeypatch.delenv("RATCHET_API_KEY", raising=False)
    monkeypatch.setenv("RATCHET_HOME", str(tmp_path))
    return tmp_path


def test_arguments_come_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_URL", "http://there/")
    monkeypatch.setenv("RATCHET_API_KEY", "rk_there")
    assert address.find() == Address("http://there", "rk_there")
    assert address.find("https://here", "rk_here") == Address("https://here", "rk_here")


def test_without_either_it_is_the_local_platform(home: Path) -> None:
    (home / address.STATE_FILE).write_text(json.dumps({"ports": {"gateway-http": 8700}}))
    (home / address.KEY_FILE).write_text("rk_local\n")
    assert address.find() == Address("http://127.0.0.1:8700", "rk_local")


def test_no_platform_is_said_with_what_to_do(home: Path) -> None:
    with pytest.raises(Unreachable, match="ratchet up"):
        Client()


def test_an_address_of_something_else_is_refused() -> None:
    with pytest.raises(Unreachable, match="http://"):
        Client("localhost:8700")
