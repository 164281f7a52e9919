"""The message of an engine that does not start."""

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from rollout_service.adapters.vllm import engine_main


class Config(BaseModel):
    length: int

    @field_validator("length")
    @classmethod
    def fits(cls, value: int) -> int:
        raise ValueError("too long for the model.\n\nYou can set an environment variable.")


def test_a_refused_config_is_one_sentence() -> None:
    with pytest.raises(ValidationError) as refused:
        Config(length=1)
    assert engine_main.summary(refused.value) == "too long for the model."


def test_an_error_without_words_is_named() -> None:
    assert engine_main.summary(MemoryError()) == "MemoryError"
