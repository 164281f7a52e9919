"""`ratchet keys` against an HTTP server in the gateway's place."""

from typing import Any

import pytest

from ratchet_testing.gateway import ScriptedGateway

pytestmark = pytest.mark.usefixtures("address")


def test_only_the_secret_is_on_stdout(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"key": {"id": "key_1", "name": "app"}, "secret": "rk_secret"})
    result = ratchet("keys", "create", "app", "--scope", "inference", "--scope", "admin")
    assert result.stdout == "rk_secret\n"
    assert "key_1" in result.stderr
    body = gateway.received[0].body
    assert body is not None
    assert (body["name"], body["scopes"]) == ("app", ["SCOPE_INFERENCE", "SCOPE_ADMIN"])


def test_an_unknown_scope_is_wrong_usage(ratchet: Any) -> None:
    result = ratchet("keys", "create", "app", "--scope", "root")
    assert (result.returncode, result.stderr) == (
        2,
        "ratchet: --scope root: choose one of inference, programs, read, train, release, admin.\n",
    )


def test_listing_and_revoking(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers(
        {
            "keys": [
                {
                    "id": "key_1",
                    "name": "app",
                    "hint": "rk_ab",
                    "scopes": ["SCOPE_INFERENCE"],
                    "monthly_tokens": "2000",
                    "tokens_this_month": "1660",
                }
            ]
        },
        {"key": {"id": "key_1"}},
    )
    assert ratchet("keys", "list").stdout.splitlines()[1].split() == [
        *("key_1", "app", "rk_ab", "inference", "all", "-", "-", "-", "-", "1,660", "of", "2,000", "(83%)")
    ]
    assert ratchet("keys", "revoke", "key_1").stdout == "key_1 is revoked.\n"


def test_a_key_may_be_for_some_models_and_some_days(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"key": {"id": "key_1", "name": "app"}, "secret": "rk_secret"})
    ratchet("keys", "create", "app", "--model", "starter", "--days", "30", "--monthly-tokens", "2000")
    body = gateway.received[0].body
    assert body is not None
    assert (body["models"], body["monthly_tokens"]) == (["starter"], "2000")
    assert body["expire_time"].endswith("Z")


def test_consent_to_keep_traffic(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"key": {"id": "key_1"}, "secret": "rk_secret"}, {"key": {"id": "key_1"}}, {"key": {"id": "key_1"}})
    ratchet("keys", "create", "app", "--keep-traffic")
    assert ratchet("keys", "traffic", "key_1", "off").stdout == "Traffic of key_1 is not kept from now on.\n"
    ratchet("keys", "traffic", "key_1", "on")
    created, off, on = gateway.received
    assert created.body is not None
    assert created.body["keep_traffic"] is True
    assert (off.verb, off.path, off.body) == ("PUT", "/api/v1/keys/key_1/traffic", {})
    assert on.body == {"keep": True}
    assert ratchet("keys", "traffic", "key_1", "maybe").returncode == 2
