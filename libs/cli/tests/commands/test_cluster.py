"""`ratchet cluster` against an HTTP server in the gateway's place."""

import json
from typing import Any

import pytest

from ratchet_testing.gateway import ScriptedGateway

pytestmark = pytest.mark.usefixtures("address")

MACHINE = {"id": "ab12cd34ef", "address": "10.0.0.1", "cpus": 16.0, "accelerators": 8.0, "run_ids": ["run_1", "run_2"]}
WAITING = {"run_id": "run_3", "waits_for": "8 accelerators: 0 of 8 are free", "nodes": 1, "accelerators_per_node": 8}


def test_machines_their_runs_and_those_that_wait(ratchet: Any, gateway: ScriptedGateway) -> None:
    cluster = {"machines": [MACHINE], "waiting": [WAITING], "place": "http://head:8265"}
    gateway.answers({"cluster": cluster}, {"cluster": cluster})
    said = ratchet("cluster").stdout.splitlines()
    assert said[0] == "Ray of http://head:8265"
    assert said[2].split() == ["10.0.0.1", "ab12cd34", "16", "8", "run_1,", "run_2"]
    assert said[5].split() == ["run_3", "1", "8", *WAITING["waits_for"].split()]
    assert json.loads(ratchet("cluster", "--json").stdout)["machines"] == [MACHINE]
    assert gateway.received[0].path == "/api/v1/cluster"


def test_a_ray_of_the_services_own(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"cluster": {"machines": [{"cpus": 32.0, "accelerators": 2.0}], "place": "trainer-1"}})
    said = ratchet("cluster").stdout.splitlines()
    assert said[2].split() == ["this", "one", "-", "32", "2", "none"]
    assert len(said) == 3
