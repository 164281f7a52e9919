"""`ratchet nodes` against an HTTP server in the gateway's place."""

from typing import Any

import pytest

from ratchet_cli.commands import nodes
from ratchet_testing.gateway import ScriptedGateway

pytestmark = pytest.mark.usefixtures("address")

BUSY = {"policy": "starter@1", "state": "STATE_READY", "sequences": 3, "kv_cache_tokens": "5760", "library": "vLLM"}
NODE = {
    "address": "10.0.0.1:8703",
    "state": "STATE_SERVING",
    "capacity": 6,
    "engines": [BUSY],
    "free_memory_bytes": str(3 << 30),
}


def test_listing(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"nodes": [NODE]})
    row = ratchet("nodes", "list").stdout.splitlines()[1].split()
    assert row == ["10.0.0.1:8703", "serving", "starter@1", "(vLLM)", "6", "3", "5760", "-", "3.0"]


def test_draining_waits_for_what_is_under_way(
    ratchet: Any, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "POLL_S", 0.0)
    idle = NODE | {"engines": [BUSY | {"sequences": 0}]}
    gateway.answers({"node": NODE}, {"nodes": [NODE]}, {"nodes": [idle]})
    assert ratchet("nodes", "drain", "10.0.0.1:8703", "--wait").stdout == "10.0.0.1:8703 is drained.\n"
    first = gateway.received[0]
    assert (first.verb, first.path) == ("POST", "/api/v1/nodes/10.0.0.1%3A8703/drain")


def test_draining_says_what_is_left_and_resuming_undoes_it(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"node": NODE}, {"node": NODE})
    assert "3 completions" in ratchet("nodes", "drain", "10.0.0.1:8703").stdout
    assert "takes requests again" in ratchet("nodes", "resume", "10.0.0.1:8703").stdout
