"""Which answers with tools vLLM holds to a form: those that ask for it, whatever its parsers do by themselves."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

transformers = pytest.importorskip("transformers", reason="needs the rollout environment")
pytest.importorskip("vllm", reason="needs the rollout environment")

from ratchet_policies import ChatPrompt, Tool, Tools  # noqa: E402
from ratchet_problems import Message  # noqa: E402
from rollout_service.adapters.vllm.parsers import AnswerReader, Parsers  # noqa: E402

pytestmark = pytest.mark.vllm

STARTER = Path(__file__).parents[4] / "models" / "starter"
MARKS = "<tool_call> </tool_call> <arg_key> </arg_key> <arg_value> </arg_value>"
RUN, STRICT = Tool("run"), Tool("run", strict=True)


def reader(parser: str, tools: Tools, json_schema: str | None = None) -> AnswerReader:
    tokenizer: Any = transformers.PreTrainedTokenizerFast(tokenizer_file=str(STARTER / "tokenizer.json"))
    tokenizer.add_tokens(MARKS.split())
    parsers = Parsers(parser, "", SimpleNamespace(model=str(STARTER)), tokenizer)
    return parsers.reader(ChatPrompt((Message("user", "Hi"),), tools), json_schema, ())


@pytest.mark.parametrize("parser", ["hermes", "glm47", "qwen3_coder"])
@pytest.mark.parametrize("tools", [Tools((RUN,)), Tools((RUN,), single=True)])
def test_the_model_alone_chooses_the_tokens(parser: str, tools: Tools) -> None:
    assert not tools.hold
    assert reader(parser, tools).structured_outputs is None


@pytest.mark.parametrize("parser", ["hermes", "glm47", "qwen3_coder"])
@pytest.mark.parametrize("tools", [Tools((RUN,), required=True), Tools((RUN,), called="run"), Tools((STRICT,))])
def test_unless_a_call_or_its_form_is_asked_for(parser: str, tools: Tools) -> None:
    assert tools.hold
    assert reader(parser, tools).structured_outputs is not None


def test_or_the_form_of_an_answer() -> None:
    assert reader("hermes", Tools((RUN,)), '{"type": "object"}').structured_outputs is not None
