"""`ratchet webhooks` against an HTTP server in the gateway's place."""

from typing import Any

import pytest

from ratchet_testing.gateway import ScriptedGateway

pytestmark = pytest.mark.usefixtures("address")

HOOK = {"id": "hook_1", "url": "https://hooks.example.com/ci", "events": ["run.succeeded"]}


def test_only_the_secret_is_on_stdout(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"webhook": HOOK, "secret": "whsec_secret"})
    result = ratchet("webhooks", "create", "https://hooks.example.com/ci", "--event", "run.succeeded")
    assert result.stdout == "whsec_secret\n"
    assert "hook_1" in result.stderr
    body = gateway.received[0].body
    assert body is not None
    assert (body["url"], body["events"]) == ("https://hooks.example.com/ci", ["run.succeeded"])


def test_listing_and_deleting(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"webhooks": [HOOK]}, {})
    assert ratchet("webhooks", "list").stdout.splitlines()[1].split() == [
        *("hook_1", "https://hooks.example.com/ci", "run.succeeded", "active", "-")
    ]
    assert ratchet("webhooks", "delete", "hook_1").stdout == "hook_1 is deleted.\n"
    assert (gateway.received[1].verb, gateway.received[1].path) == ("DELETE", "/api/v1/webhooks/hook_1")


def test_failures_can_be_read(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers(
        {
            "deliveries": [
                {
                    "event_id": "event_1",
                    "type": "run.failed",
                    "state": "STATE_WAITING",
                    "attempts": 2,
                    "error": "the endpoint answered 503",
                }
            ]
        }
    )
    line = ratchet("webhooks", "deliveries", "hook_1").stdout.splitlines()[1]
    assert line.split() == ["event_1", "run.failed", "WAITING", "2", "-", *["the", "endpoint", "answered", "503"]]


def test_pausing_keeps_the_rest(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"webhook": HOOK}, {"webhook": HOOK}, {"webhook": HOOK | {"paused": True}}, {"webhook": HOOK})
    assert ratchet("webhooks", "pause", "hook_1").stdout == "hook_1 is paused.\n"
    assert ratchet("webhooks", "resume", "hook_1").stdout == "hook_1 is active.\n"
    _, pause, _, resume = gateway.received
    assert (pause.verb, pause.path) == ("PUT", "/api/v1/webhooks/hook_1")
    assert pause.body == {"url": HOOK["url"], "events": HOOK["events"], "paused": True}
    assert resume.body == {"url": HOOK["url"], "events": HOOK["events"]}
