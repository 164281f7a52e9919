"""Rows of problems and pairs, without those that have no room."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

from transformers import AutoTokenizer

from ratchet_benchmarks import Prompt
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import CallTest, Message, Problem, jsonl
from trainer_service.job.prompting import prompt_ids, reply_ids
from trainer_service.verl.driver.datasets import (
    ExampleDataset,
    PairDataset,
    PromptDataset,
)

STARTER = Path(__file__).parents[5] / "models/starter"
pytestmark = pytest.mark.verl


class Letters:
    """A tokenizer of letters."""

    eos_token_id = 0

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> list[int]:
        return [ord(letter) for message in conversation for letter in message["content"]]

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text]}


@pytest.fixture
def problems(tmp_path: Path) -> str:
    """p0 with a short prompt, p1 with a long one, p2 with a short one and a long reference."""
    test = CallTest.of([1], 1)
    made = [
        Problem("p0", "Return x.", (test,), "f", ("def f(x): return x",)),
        Problem("p1", "Return x." * 100, (test,), "f", ("def f(x): return x",)),
        Problem("p2", "Return it.", (test,), "f", ("def f(x): return x" + " " * 900,)),
    ]
    path = tmp_path / "mine.jsonl"
    jsonl.write(made, path)
    return str(path)


def test_prompts_that_are_too_long_are_left_out(problems: str) -> None:
    config = SimpleNamespace(max_prompt_length=500, filter_overlong_prompts=True, prompt_form="chat")
    dataset = PromptDataset(problems, Letters(), config)
    assert [dataset.problems[row["index"]].id for row in (dataset[0], dataset[1])] == ["p0", "p2"]
    assert (len(dataset), dataset.fitting.left_out) == (2, 1)
    assert len(PromptDataset(None, Letters(), config)) == 0


def test_examples_count_their_references(problems: str) -> None:
    config = SimpleNamespace(max_length=500, filter_overlong_prompts=True, prompt_form="chat")
    dataset = ExampleDataset(problems, Letters(), config)
    assert (len(dataset), dataset.fitting.left_out) == (1, 2)
    assert len(dataset[0]["input_ids"]) == len(dataset[0]["position_ids"]) <= 500


def test_they_end_the_run_where_the_spec_wants_that(problems: str) -> None:
    with pytest.raises(InvalidArgument, match="problem p1 has"):
        PromptDataset(
            problems,
            Letters(),
            SimpleNamespace(max_prompt_length=500, filter_overlong_prompts=False, prompt_form="chat"),
        )
    with pytest.raises(InvalidArgument, match="problem p1 has"):
        ExampleDataset(
            problems, Letters(), SimpleNamespace(max_length=500, filter_overlong_prompts=False, prompt_form="chat")
        )


def test_a_base_without_a_chat_template_goes_on_with_the_text(tmp_path: Path) -> None:
    begun = Problem("p0", "def f(x):\n", (CallTest.of([1], 1),), "f", ("def f(x):\n    return x",))
    asked = Problem("p1", "Return x.", (CallTest.of([1], 1),), "f", ("def f(x): return x",))
    jsonl.write([begun, asked], path := tmp_path / "mine.jsonl")
    config = SimpleNamespace(max_length=500, filter_overlong_prompts=True, prompt_form="completion")
    rows = ExampleDataset(str(path), Letters(), config)

    def text(row: dict[str, Any], learned: bool) -> str:
        return "".join(
            chr(one)
            for one, is_learned in zip(row["input_ids"], row["loss_mask"], strict=True)
            if is_learned == learned
        )

    assert (text(rows[0], learned=False), text(rows[0], learned=True)) == ("def f(x):\n", "    return x\0")
    assert (text(rows[1], learned=False), text(rows[1], learned=True)) == ("Return x.\n", "def f(x): return x\0")
    within = SimpleNamespace(max_prompt_length=10, filter_overlong_prompts=False, prompt_form="completion")
    assert PromptDataset(str(path), Letters(), within).fitting.longest == 10


def test_a_pair_is_two_rows_that_differ_in_their_answers(tmp_path: Path) -> None:
    lines = [
        {"problem": "Return x.", "chosen": "def f(x): return x", "rejected": "def f(x): pass"},
        {"prompt": [{"role": "user", "content": "Ask."}, {"role": "assistant", "content": "Me?"},
                    {"role": "user", "content": "Yes."}],
         "chosen": [{"role": "assistant", "content": "Good."}], "rejected": [{"role": "assistant", "content": "Bad."}]},
        {"problem": "Return it.", "chosen": "short", "rejected": "l" + "o" * 500 + "ng"},
    ]  # fmt: skip
    (tmp_path / "pairs.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    config = SimpleNamespace(max_length=300, filter_overlong_prompts=True, prompt_form="chat")
    dataset = PairDataset(str(tmp_path / "pairs.jsonl"), Letters(), config)
    assert (len(dataset), dataset.fitting.left_out, dataset.digest[:7]) == (2, 1, "sha256:")
    read = [
        ["".join(chr(one) for one in row["input_ids"][row["loss_mask"] == learned]) for learned in (0, 1)]
        for both in (dataset[0], dataset[1])
        for row in both
    ]
    assert read == [
        ["Return x.", "def f(x): return x\0"],
        ["Return x.", "def f(x): pass\0"],
        ["Ask.Me?Yes.", "Good.\0"],
        ["Ask.Me?Yes.", "Bad.\0"],
    ]
    with pytest.raises(InvalidArgument, match="pair pairs/3 has"):
        config = SimpleNamespace(max_length=300, filter_overlong_prompts=False, prompt_form="chat")
        PairDataset(str(tmp_path / "pairs.jsonl"), Letters(), config)


def test_a_pairs_text_is_gone_on_with_as_it_stands(tmp_path: Path) -> None:
    lines = [
        {"prompt": "x = ", "chosen": "1", "rejected": "2"},
        {"problem": "def f(x):", "chosen": "def f(x):\n    return x", "rejected": "    pass"},
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    config = SimpleNamespace(max_length=300, filter_overlong_prompts=True, prompt_form="completion")
    dataset = PairDataset(str(tmp_path / "pairs.jsonl"), Letters(), config)
    read = ["".join(chr(one) for one in row["input_ids"]) for both in (dataset[0], dataset[1]) for row in both]
    assert read == ["x = 1\0", "x = 2\0", "def f(x):\n    return x\0", "def f(x):\n    pass\0"]


CHATML = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] | trim }}"
    "{% if m['role'] == 'assistant' %}<|end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.mark.parametrize("template", ["", CHATML])
def test_what_stands_between_two_answers_is_what_the_template_writes(template: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(str(STARTER))
    tokenizer.chat_template = template or tokenizer.chat_template
    asked, replies = [Message("user", "Write f.")], [Message("user", "f(1): 2, not 3 ratchet-answer-5d1f0c")]
    answer = tokenizer("def f(x): return 2", add_special_tokens=False)["input_ids"]
    ended = [*answer, tokenizer.eos_token_id]
    prompt = prompt_ids(tokenizer, Prompt(messages=tuple(asked)))
    whole = prompt_ids(tokenizer, Prompt(messages=(*asked, Message("assistant", "def f(x): return 2"), *replies)))
    assert [*prompt, *ended, *reply_ids(tokenizer, asked, replies, ended[-1])] == whole
    # Where the answer ended with something else, the template's end comes after it.
    assert [*prompt, *answer, *reply_ids(tokenizer, asked, replies, answer[-1])] == whole
