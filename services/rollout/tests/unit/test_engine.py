"""The reason why an engine did not start or died, as its log tells it."""

from datetime import timedelta
from pathlib import Path

import pytest

from rollout_service.adapters.vllm import wire
from rollout_service.adapters.vllm.engine import VllmPolicyEngine
from rollout_service.domain.policy import Dtype

SPEC = wire.EngineSpec("/model", "cpu", Dtype.FLOAT32, None, 8, None, 1, 0.9, True)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "(EngineCore pid=1) ERROR 01-01 [core.py:1] ValueError: no room for the KV cache\n"
            "RuntimeError: Engine core initialization failed. See root cause above.\n"
            "INFO shutdown\n",
            "ValueError: no room for the KV cache",
        ),
        ("INFO serving\nasyncio.exceptions.CancelledError: \n", "killed, or out of memory; see {log}"),
        ("", "killed, or out of memory; see {log}"),
    ],
)
def test_the_reason_is_the_last_error_that_names_a_cause(tmp_path: Path, log: str, expected: str) -> None:
    log_file = tmp_path / "p.log"
    log_file.write_text("ValueError: of an engine before\n")
    engine = VllmPolicyEngine(wire.ForkRequest("p", SPEC, str(tmp_path), str(log_file)), timedelta(0))
    with log_file.open("a") as opened:
        opened.write(log)
    assert engine.last_error() == expected.format(log=log_file)
