"""What a user reads of vLLM's pages when an engine does not come up or dies."""

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from rollout_service.adapters.vllm import engine_main, wire
from rollout_service.adapters.vllm.engine import VllmPolicyEngine

SPEC = wire.EngineSpec("/model", "cpu", "float32", 0, 8, 0, 1, 0.9, True)


class Config(BaseModel):
    length: int

    @field_validator("length")
    @classmethod
    def fits(cls, value: int) -> int:
        raise ValueError("too long for the model.\n\nYou can set an environment variable.")


def test_a_refused_config_is_one_sentence() -> None:
    with pytest.raises(ValidationError) as refused:
        Config(length=1)
    assert engine_main._sentence(refused.value) == "too long for the model."


def test_an_error_without_words_is_named() -> None:
    assert engine_main._sentence(MemoryError()) == "MemoryError"


@pytest.mark.parametrize(
    ("log", "words"),
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
def test_the_last_words_are_the_last_error_that_says_something(tmp_path: Path, log: str, words: str) -> None:
    log_file = tmp_path / "p.log"
    log_file.write_text("ValueError: of an engine before\n")
    engine = VllmPolicyEngine(wire.Order("p", SPEC, str(tmp_path), str(log_file)), timedelta(0))
    with log_file.open("a") as opened:
        opened.write(log)
    assert engine._last_words() == words.format(log=log_file)
