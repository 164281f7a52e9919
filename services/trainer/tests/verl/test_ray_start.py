"""A node of Ray that takes long to come up, or does not."""

import subprocess
import time
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs the trainer environment")

import ray._private.services as services

from trainer_service.verl.ray_start import wait_longer

pytestmark = pytest.mark.verl


def test_a_node_that_registers_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([RuntimeError("not there"), RuntimeError("not there"), {"node": "1"}])

    def look(*args: Any) -> Any:
        if isinstance(found := next(looks), RuntimeError):
            raise found
        return found

    monkeypatch.setattr(services, "get_node", look)
    wait_longer()
    assert services.get_node("address", "id") == {"node": "1"}


def test_a_node_that_ended_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*args: Any) -> Any:
        raise RuntimeError("not there")

    monkeypatch.setattr(services, "get_node", look)
    wait_longer()
    ended = subprocess.Popen(["false"])
    began = time.monotonic()
    with pytest.raises(ChildProcessError, match="ended while it came up"):
        services.get_node("address", "id")
    assert time.monotonic() - began < 30
    ended.wait()
