"""The message of an engine that does not start, and what one says while it runs."""

import asyncio
from contextlib import aclosing

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from rollout_service.adapters.process import engine_main


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


class SilentEngine:
    """It answers nobody."""

    loads = False
    computes_apart = True

    async def answer(self) -> None:
        await asyncio.Event().wait()


async def test_an_engine_that_computes_in_its_own_process_speaks_only_when_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That its process runs proves nothing: its processor time does."""
    monkeypatch.setattr(engine_main, "_BEAT_SECONDS", 0.001)
    engine = SilentEngine()
    engine.computes_apart = False
    async with aclosing(engine_main._beats(engine)) as beats:  # type: ignore[arg-type]
        first = asyncio.create_task(anext(beats))
        assert not (await asyncio.wait([first], timeout=0.05))[0]
        engine.loads = True
        assert (await first).answers


async def test_an_engine_that_takes_weights_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it was asked before it began to."""
    monkeypatch.setattr(engine_main, "_BEAT_SECONDS", 0.001)
    engine = SilentEngine()
    async with aclosing(engine_main._beats(engine)) as beats:  # type: ignore[arg-type]
        said = [(await anext(beats)).answers]
        engine.loads = True
        said.append((await anext(beats)).answers)
        engine.loads = False
        said.append((await anext(beats)).answers)
    assert said == [False, True, False]
