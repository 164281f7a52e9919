"""`ratchet status`, `failures` and `down` where RATCHET_URL names a platform elsewhere."""

from typing import Any

import pytest

from ratchet_testing.gateway import ScriptedGateway

pytestmark = pytest.mark.usefixtures("address")

FAILED = {
    "resource": "RESOURCE_VERSION",
    "id": "starter@2",
    "name": "/models/starter",
    "message": "model.safetensors cannot be read",
    "end_time": "2026-01-02T03:04:05Z",
}


def test_status_is_of_the_platform_at_the_url(ratchet: Any, gateway: ScriptedGateway) -> None:
    serving = {"name": "gateway", "state": "STATE_SERVING"}
    away = {"name": "eval", "state": "STATE_AWAY", "detail": "UNAVAILABLE: refused"}
    gateway.answers({"services": [serving, away]}, {"services": [serving | {"latency": "0.012s"}]})
    result = ratchet("status")
    assert result.returncode == 1
    assert result.stdout.splitlines()[0] == f"The platform at {gateway.url}:"
    assert "eval     away     -           UNAVAILABLE: refused" in result.stdout
    result = ratchet("status")
    assert (result.returncode, result.stdout.splitlines()[-1].split()) == (0, ["gateway", "serving", "12", "ms"])


def test_what_failed_lately_is_one_list_with_its_reasons(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"failures": [FAILED], "missing": ["eval"]}, {"failures": []})
    result = ratchet("failures", "--since", "2026-01-01T00:00:00+00:00")
    (_, line) = result.stdout.splitlines()
    assert line.split()[:3] == ["version", "starter@2", "/models/starter"]
    assert line.endswith("model.safetensors cannot be read")
    assert result.stderr == "The eval service does not answer: its failures are not listed.\n"
    assert gateway.received[-1].query == {"after_time": "2026-01-01T00:00:00Z"}
    assert ratchet("failures").stdout == "Nothing failed.\n"


def test_a_missing_key_is_named(ratchet: Any, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = {"error": {"code": "UNAUTHENTICATED", "message": "an API key is needed: Authorization: Bearer rk_..."}}
    gateway.answers(refusal, refusal, status=401)
    result = ratchet("runs", "list")
    assert (result.returncode, "set RATCHET_API_KEY" in result.stderr) == (3, True)
    monkeypatch.setenv("RATCHET_API_KEY", "rk_wrong")
    assert "set RATCHET_API_KEY" not in ratchet("runs", "list").stderr


def test_a_folder_is_looked_for_where_the_platform_is(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"version": {"ref": {"model": "mine", "number": 1}, "state": "STATE_PENDING"}})
    assert ratchet("models", "add", "mine", "/models/not-here", "--detach").returncode == 0
    body = gateway.received[-1].body
    assert body is not None
    assert body["source_uri"] == "/models/not-here"
    result = ratchet("models", "add", "mine", "./here")
    assert (result.returncode, "a relative folder is not known at" in result.stderr) == (2, True)


def test_what_is_of_this_machine_says_so(ratchet: Any, gateway: ScriptedGateway) -> None:
    assert "the platform of this machine, not the one at" in ratchet("down").stderr
