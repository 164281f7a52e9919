"""What is trained is what is served: prompts and examples are held to `apply_chat_template`, on real tokenizers and on
templates in the styles of the common families."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

from transformers import AutoTokenizer

from ratchet_kit.model_config import stops_of
from ratchet_problems import Message, Problem
from ratchet_problems.messages import records
from trainer_service.adapters.tokenizers import dress
from trainer_service.job.samples.endings import ending
from trainer_service.job.samples.prompting import conversation_ids, prompt_ids, prompt_of
from trainer_service.verl.driver.datasets import answered

pytestmark = pytest.mark.verl
STARTER = Path(__file__).parents[5] / "models/starter"
SMOLLM2 = Path(os.environ.get("RATCHET_HOME") or Path.home() / ".ratchet") / "models/smollm2"
"""Of `make smollm2`."""
SYSTEM, FIRST, ANSWER = (
    Message("system", "Answer with code alone."),
    Message("user", "Write f(x) that returns x + 1."),
    Message("assistant", "def f(x):\n    return x + 1"),
)
CONVERSATIONS: Mapping[str, tuple[Message, ...]] = {
    "plain": (),
    "system": (SYSTEM,),
    "turns": (FIRST, ANSWER),
    "both": (SYSTEM, FIRST, ANSWER),
}
REFERENCE = "def f(x):\n    return x + 2"
STYLES = {
    "chatml": (
        "{% if messages[0].role != 'system' %}<|im_start|>system\nBe helpful.<|im_end|>\n{% endif %}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    "headers": (
        "{{ bos_token }}{% for m in messages %}<|head|>{{ m.role }}<|body|>\n\n{{ m.content | trim }}<|eot|>"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|head|>assistant<|body|>\n\n{% endif %}"
    ),
    "instructions": (
        "{{ bos_token }}{% if messages[0].role == 'system' %}{% set system = messages[0].content + '\n\n' %}"
        "{% set turns = messages[1:] %}{% else %}{% set system = '' %}{% set turns = messages %}{% endif %}"
        "{% for m in turns %}{% if m.role == 'user' %}[INST] {{ (system if loop.first else '') + m.content }} [/INST]"
        "{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
    ),
    "turns": (
        "{{ bos_token }}{% for m in messages %}<turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
        "{{ m.content | trim }}<end>\n{% endfor %}{% if add_generation_prompt %}<turn>model\n{% endif %}"
    ),
}
ENDS = {"starter": "<|end|>", "smollm2": "<|im_end|>", "chatml": "<|im_end|>", "headers": "<|eot|>", "turns": "<end>"}
"""The token that ends a turn; of "instructions" the tokenizer's own."""
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|head|>", "<|body|>", "<|eot|>", "[INST]", "[/INST]", "<turn>", "<end>"]


@pytest.fixture(params=["starter", "smollm2", *STYLES])
def family(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "smollm2" and not SMOLLM2.is_dir():
        pytest.skip("`make smollm2` makes it")
    return name


@pytest.fixture
def tokenizer(family: str) -> Any:
    found = AutoTokenizer.from_pretrained(str(SMOLLM2 if family == "smollm2" else STARTER))
    if family in STYLES:
        found.add_special_tokens({"bos_token": "<|pad|>", "additional_special_tokens": SPECIAL})
        found.chat_template = STYLES[family]
    return found


def reference(tokenizer: Any, messages: tuple[Message, ...], **options: Any) -> list[int]:
    return list(tokenizer.apply_chat_template(records(messages), tokenize=True, return_dict=False, **options))


@pytest.mark.parametrize("conversation", CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_what_is_learned_is_what_the_template_writes(
    tokenizer: Any, family: str, conversation: tuple[Message, ...]
) -> None:
    problem = Problem("p", "Now x + 2.", (), references=(REFERENCE,), conversation=conversation)
    put = prompt_of(problem, "chat")
    asked = reference(tokenizer, problem.messages, add_generation_prompt=True)
    assert prompt_ids(tokenizer, put) == asked
    whole = (*problem.messages, Message("assistant", REFERENCE))
    assert conversation_ids(tokenizer, put.messages, REFERENCE) == reference(tokenizer, whole)
    end = tokenizer.convert_tokens_to_ids(ENDS.get(family, tokenizer.eos_token))
    row = answered(tokenizer, put, REFERENCE, ending(tokenizer, [end], "chat"))
    learned = row["input_ids"].tolist()
    assert row["loss_mask"].tolist().index(1) == len(asked)
    assert learned[-1] == end
    assert learned == reference(tokenizer, whole)[: len(learned)]
    assert not tokenizer.decode(reference(tokenizer, whole)[len(learned) :]).strip()


@pytest.mark.parametrize("family", ["starter", "smollm2"], indirect=True)
def test_the_end_of_a_turn_is_a_stop_of_the_engine(tokenizer: Any, family: str) -> None:
    stops = stops_of(SMOLLM2 if family == "smollm2" else STARTER)
    end = ending(tokenizer, stops, "chat")
    assert list(end.tokens) == [tokenizer.convert_tokens_to_ids(ENDS[family])]
    assert end.tokens[-1] in {tokenizer.eos_token_id, *stops}


@pytest.mark.parametrize("family", ["starter", "smollm2"], indirect=True)
def test_a_template_of_a_runs_own_is_that_of_its_job(tokenizer: Any, family: str, tmp_path: Path) -> None:
    end, base = ENDS[family], SMOLLM2 if family == "smollm2" else STARTER
    turn = "{{ m['role'] }}: {{ m['content'] }}{% if m['role'] == 'assistant' %} ." + end + "{% endif %}"
    template = "{% for m in messages %}" + turn + "{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
    dress(base, tmp_path / "base", template)
    own = AutoTokenizer.from_pretrained(str(tmp_path / "base"))
    assert own.chat_template == template
    assert own.get_vocab() == tokenizer.get_vocab()
    put = prompt_of(Problem("p", "Now x + 2.", (), references=(REFERENCE,)), "chat")
    asked = reference(tokenizer, put.messages, add_generation_prompt=True, chat_template=template)
    assert prompt_ids(own, put) == asked != prompt_ids(tokenizer, put)
    row = answered(own, put, REFERENCE, ending(own, stops_of(tmp_path / "base"), "chat"))
    answer = tokenizer.encode(f"{REFERENCE} .{end}", add_special_tokens=False)
    assert tokenizer.decode(row["input_ids"][row["loss_mask"] == 1]) == tokenizer.decode(answer)
