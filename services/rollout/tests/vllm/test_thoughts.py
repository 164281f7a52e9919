"""Which of an answer's tokens are thoughts: vLLM's parsers over a tokenizer of ours, and an engine that is played."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

transformers = pytest.importorskip("transformers", reason="needs the rollout environment")
pytest.importorskip("vllm", reason="needs the rollout environment")

from ratchet_policies import Begun, Sampling  # noqa: E402
from ratchet_problems import Message  # noqa: E402
from rollout_service.adapters.engines import wire  # noqa: E402
from rollout_service.adapters.vllm.vllm_engine import VllmEngine  # noqa: E402

pytestmark = pytest.mark.vllm

STARTER = Path(__file__).parents[4] / "models" / "starter"
TEMPLATE = "{% for one in messages %}<|im_start|>{{ one.role }}\n{{ one.content }}<|im_end|>\n{% endfor %}"
TEMPLATE += "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
ANSWER = "<think>hm</think>yes<|im_end|>"


class Played:
    """Says `ANSWER` to everything, `at_once` tokens at a time."""

    def __init__(self, at_once: int = 1) -> None:
        self.at_once = at_once
        tokens = ["<think>", "</think>", "<|im_start|>", "<|im_end|>"]
        self.tokenizer: Any = transformers.PreTrainedTokenizerFast(tokenizer_file=str(STARTER / "tokenizer.json"))
        self.tokenizer.add_tokens(tokens)
        self.tokenizer.chat_template = TEMPLATE
        self.vllm_config = SimpleNamespace(cache_config=SimpleNamespace(num_gpu_blocks=1, block_size=16))
        size = len(self.tokenizer)
        self.model_config = SimpleNamespace(
            max_model_len=1000, dtype="torch.float32", model=str(STARTER), get_vocab_size=lambda: size
        )
        self.ended: list[bool | None] = []

    def get_tokenizer(self) -> Any:
        return self.tokenizer

    async def generate(self, prompt: Any, params: Any, id: str, **more: Any) -> AsyncIterator[Any]:
        self.ended.append(more["reasoning_ended"])
        ids = self.tokenizer.encode(ANSWER, add_special_tokens=False)
        for place in range(0, len(ids), self.at_once):
            new, last = ids[place : place + self.at_once], place + self.at_once >= len(ids)
            text = self.tokenizer.decode(new).replace("<|im_end|>", "")
            piece = SimpleNamespace(index=0, text=text, token_ids=new, logprobs=None, stop_reason=None)
            piece.finish_reason = "stop" if last else None
            yield SimpleNamespace(outputs=[piece], finished=last)


async def said(engine: VllmEngine, call: wire.Generate) -> tuple[str, str]:
    pieces = [one async for output in engine.generate(call, "1") for one in output.completions]
    return "".join(one.reasoning for one in pieces), "".join(one.text for one in pieces).strip()


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
@pytest.mark.parametrize("parser", ["deepseek_r1", "qwen3", "kimi_k2"])
async def test_thoughts_that_ended_before_are_none_of_the_answers(parser: str, at_once: int) -> None:
    llm: Any = Played(at_once)
    engine = VllmEngine(llm, reasoning_parser=parser)
    question = (Message("user", "What is </think>?"),)
    first = wire.Generate(Sampling(), False, 0, messages=question)
    assert await said(engine, first) == ("hm", "yes")
    ids = (*engine._prompts.tokens(first), *llm.tokenizer.encode(ANSWER, add_special_tokens=False))
    more = (*question, Message("assistant", "yes"), Message("user", "Sure?"))
    assert await said(engine, wire.Generate(Sampling(), False, 0, messages=more, begun=Begun(ids, 2))) == ("hm", "yes")
    assert llm.ended == [False, False]


async def test_thoughts_that_the_template_ends_are_over() -> None:
    llm: Any = Played()
    template = f"{TEMPLATE}<think>\n\n</think>\n\n"
    call = wire.Generate(Sampling(), False, 0, messages=(Message("user", "Hi"),), chat_template=template)
    assert (await said(VllmEngine(llm, reasoning_parser="deepseek_r1"), call))[0] == ""
    assert llm.ended == [True]


async def test_a_text_follows_its_form_from_the_first_token() -> None:
    llm: Any = Played()
    text = wire.Generate(Sampling(json_schema='{"type": "object"}'), False, 0, text="def")
    assert (await said(VllmEngine(llm, reasoning_parser="deepseek_r1"), text))[0] == ""
    assert llm.ended == [True]
