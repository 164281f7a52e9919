"""Rows of problems, without those that have no room."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import CallTest, Problem, jsonl
from trainer_service.job.verl.driver.datasets import ExampleDataset, PromptDataset

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
