"""Rows of problems and pairs, without those that have no room."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

from transformers import AutoTokenizer

from ratchet_kit.errors import DataLoss, InvalidArgument
from ratchet_problems import CallTest, Message, Problem, data_digest, jsonl, load, pairs
from ratchet_problems.prompting import Prompt
from trainer_service.job.samples.endings import ending
from trainer_service.job.samples.prompting import prompt_ids, prompt_of, reply_ids
from trainer_service.verl.driver.datasets import (
    ChosenDataset,
    ExampleDataset,
    PairDataset,
    PromptDataset,
)

STARTER = Path(__file__).parents[5] / "models/starter"
pytestmark = pytest.mark.verl


def data(**fields: Any) -> Any:
    """The part of verl's config."""
    whole = {"filter_overlong_prompts": True, "prompt_form": "chat", "system": "", "stops": [], "vocabulary": 0}
    whole |= {"all_answers": False, "examples": None, "shots": 0, "examples_digest": None}
    return SimpleNamespace(**whole | fields)


class Letters:
    """A tokenizer of letters."""

    eos_token_id = 0
    all_special_ids = (0,)
    added_tokens_decoder: Mapping[int, Any] = {}

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> list[int] | str:
        text = "".join(message["content"] for message in conversation)
        return [ord(letter) for letter in text] if options["tokenize"] else text

    def encode(self, text: str, **options: Any) -> list[int]:
        return [ord(letter) for letter in text]

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
    config = data(max_prompt_length=500)
    dataset = PromptDataset(problems, Letters(), config)
    assert [dataset.problems[row["index"]].id for row in (dataset[0], dataset[1])] == ["p0", "p2"]
    assert (len(dataset), dataset.fitting.left_out) == (2, 1)
    assert len(PromptDataset(None, Letters(), config)) == 0


def test_a_newer_version_keeps_the_places_of_what_was_there(problems: str, tmp_path: Path) -> None:
    dataset = PromptDataset(problems, Letters(), data(max_prompt_length=500))
    known, new = load(problems)[2], Problem("p3", "Return 3.", (CallTest.of([], 3),), "f")
    jsonl.write([new, known, replace(new, id="p4", prompt="Return 3." * 100)], path := tmp_path / "newer.jsonl")
    found = dataset.follow(str(path), None)
    assert (list(found.places), found.fitting.left_out) == ([2, 1], 1)
    assert [problem.id for problem in dataset.problems] == ["p0", "p2", "p3"]
    assert found.digest == data_digest(load(str(path)))


def test_examples_count_their_references(problems: str) -> None:
    config = data(max_length=500)
    dataset = ExampleDataset(problems, Letters(), config)
    assert (len(dataset), dataset.fitting.left_out) == (1, 2)
    assert len(dataset[0]["input_ids"]) == len(dataset[0]["position_ids"]) <= 500


def test_the_better_answers_of_pairs_are_examples(tmp_path: Path) -> None:
    rows = [
        {"problem": "Return x.", "chosen": "def f(x): return x", "rejected": "def f(x): pass" * 99},
        {"problem": "Return y.", "chosen": "def f(y): return y" * 99, "rejected": "no"},
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    dataset = ChosenDataset(str(path), Letters(), data(max_length=500))
    assert (len(dataset), dataset.fitting.left_out) == (1, 1)
    assert read(dataset[0], learned=True).startswith("def f(x): return x")
    assert "Return x." in read(dataset[0], learned=False)
    assert dataset.digest == pairs.pairs_digest(pairs.read(path))


def test_they_end_the_run_where_the_spec_wants_that(problems: str) -> None:
    with pytest.raises(InvalidArgument, match="problem p1 has"):
        PromptDataset(
            problems,
            Letters(),
            data(max_prompt_length=500, filter_overlong_prompts=False),
        )
    with pytest.raises(InvalidArgument, match="problem p1 has"):
        ExampleDataset(
            problems,
            Letters(),
            data(max_length=500, filter_overlong_prompts=False),
        )


def test_a_base_without_a_chat_template_goes_on_with_the_text(tmp_path: Path) -> None:
    begun = Problem("p0", "def f(x):\n", (CallTest.of([1], 1),), "f", ("def f(x):\n    return x",))
    asked = Problem("p1", "Return x.", (CallTest.of([1], 1),), "f", ("def f(x): return x",))
    jsonl.write([begun, asked], path := tmp_path / "mine.jsonl")
    config = data(max_length=500, prompt_form="completion")
    rows = ExampleDataset(str(path), Letters(), config)

    def text(row: dict[str, Any], learned: bool) -> str:
        return "".join(
            chr(one)
            for one, is_learned in zip(row["input_ids"], row["loss_mask"], strict=True)
            if is_learned == learned
        )

    assert (text(rows[0], learned=False), text(rows[0], learned=True)) == ("def f(x):\n", "    return x\0")
    assert (text(rows[1], learned=False), text(rows[1], learned=True)) == ("Return x.\n", "def f(x): return x\0")
    within = data(max_prompt_length=10, filter_overlong_prompts=False, prompt_form="completion")
    assert PromptDataset(str(path), Letters(), within).fitting.longest == 10


def read(row: Mapping[str, Any], *, learned: bool) -> str:
    return "".join(chr(one) for one in row["input_ids"][row["loss_mask"] == learned])


def test_a_system_is_put_before_what_has_none_of_its_own(tmp_path: Path) -> None:
    one, own = Problem("a", "Ask.", (), references=("Yes.",)), (Message("system", "Own."), Message("user", "Hm."))
    jsonl.write([one, replace(one, id="b", conversation=own)], tmp_path / "mine.jsonl")
    prompts = PromptDataset(str(tmp_path / "mine.jsonl"), Letters(), data(max_prompt_length=99, system="All."))
    assert [problem.messages[0].content for problem in prompts.problems] == ["All.", "Own."]
    assert prompts.digest == data_digest(load(str(tmp_path / "mine.jsonl")))
    rows = ExampleDataset(str(tmp_path / "mine.jsonl"), Letters(), data(max_length=99, system="All."))
    assert [read(row, learned=False) for row in (rows[0], rows[1])] == ["All.Ask.", "Own.Hm.Ask."]
    answers = {name: [{"role": "assistant", "content": name}] for name in ("chosen", "rejected")}
    said = [{"role": message.role, "content": message.content} for message in own]
    lines = [{"prompt": said[1:]} | answers, {"prompt": said} | answers]
    lines.append({"problem": "Ask.", "chosen": "x", "rejected": "y"})
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    both = PairDataset(str(tmp_path / "pairs.jsonl"), Letters(), data(max_length=99, system="All."))
    assert [read(both[place][0], learned=False) for place in range(3)] == ["All.Hm.", "Own.Hm.", "All.Ask."]


def test_every_answer_of_a_conversation_may_be_learned(tmp_path: Path) -> None:
    roles = ("system", "user", "assistant", "user", "assistant")
    said = tuple(Message(role, f"{role}{place}.") for place, role in enumerate(roles))
    one = Problem("a", "Ask.", (), references=("Yes.",))
    jsonl.write([replace(one, conversation=said), replace(one, id="b")], tmp_path / "mine.jsonl")
    last = ExampleDataset(str(tmp_path / "mine.jsonl"), Letters(), data(max_length=99))
    assert [read(row, learned=True) for row in (last[0], last[1])] == ["Yes.\0", "Yes.\0"]
    rows = ExampleDataset(str(tmp_path / "mine.jsonl"), Letters(), data(max_length=99, all_answers=True))
    assert [(read(rows[place], learned=False), read(rows[place], learned=True)) for place in range(len(rows))] == [
        ("system0.user1.", "assistant2.\0"),
        ("system0.user1.assistant2.user3.", "assistant4.\0"),
        ("system0.user1.assistant2.user3.assistant4.Ask.", "Yes.\0"),
        ("Ask.", "Yes.\0"),
    ]


def test_a_pair_is_two_rows_that_differ_in_their_answers(tmp_path: Path) -> None:
    lines = [
        {"problem": "Return x.", "chosen": "def f(x): return x", "rejected": "def f(x): pass"},
        {"prompt": [{"role": "user", "content": "Ask."}, {"role": "assistant", "content": "Me?"},
                    {"role": "user", "content": "Yes."}],
         "chosen": [{"role": "assistant", "content": "Good."}], "rejected": [{"role": "assistant", "content": "Bad."}]},
        {"problem": "Return it.", "chosen": "short", "rejected": "l" + "o" * 500 + "ng"},
    ]  # fmt: skip
    (tmp_path / "pairs.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    config = data(max_length=300)
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
        config = data(max_length=300, filter_overlong_prompts=False)
        PairDataset(str(tmp_path / "pairs.jsonl"), Letters(), config)


def test_a_pairs_text_is_gone_on_with_as_it_stands(tmp_path: Path) -> None:
    lines = [
        {"prompt": "x = ", "chosen": "1", "rejected": "2"},
        {"problem": "def f(x):", "chosen": "def f(x):\n    return x", "rejected": "    pass"},
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    config = data(max_length=300, prompt_form="completion")
    dataset = PairDataset(str(tmp_path / "pairs.jsonl"), Letters(), config)
    read = ["".join(chr(one) for one in row["input_ids"]) for both in (dataset[0], dataset[1]) for row in both]
    assert read == ["x = 1\0", "x = 2\0", "def f(x):\n    return x\0", "def f(x):\n    pass\0"]


CHATML = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] | trim }}"
    "{% if m['role'] == 'assistant' %}<|end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
DASHES = (STARTER / "chat_template.jinja").read_text().replace("['content']", "['content'] | replace('-', ' - ')")


def starter(**changes: Any) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(str(STARTER))
    for name, value in changes.items():
        setattr(tokenizer, name, value)
    return tokenizer


@pytest.mark.parametrize("template", ["", CHATML, DASHES])
def test_what_stands_between_two_answers_is_what_the_template_writes(template: str) -> None:
    tokenizer = starter(**{"chat_template": template} if template else {})
    end = ending(tokenizer, [], "chat")
    asked, replies = [Message("user", "Write f.")], [Message("user", "f(1): 2, not 3 ratchetanswer5d1f0")]
    answer = tokenizer("def f(x): return 2", add_special_tokens=False)["input_ids"]
    ended = [*answer, tokenizer.eos_token_id]
    prompt = prompt_ids(tokenizer, Prompt(messages=tuple(asked)))
    whole = prompt_ids(tokenizer, Prompt(messages=(*asked, Message("assistant", "def f(x): return 2"), *replies)))
    assert [*prompt, *ended, *reply_ids(tokenizer, asked, replies, ended, end)] == whole
    # Where the answer ended with something else, the template's end comes after it.
    assert [*prompt, *answer, *reply_ids(tokenizer, asked, replies, answer, end)] == whole


@pytest.mark.parametrize(
    ("changes", "stops", "learned"),
    [
        ({}, [], ["<|end|>"]),
        ({"eos_token": "<|pad|>"}, [1, 0], ["<|end|>"]),  # as Gemma and Phi
        ({"eos_token": None}, [1], ["<|end|>"]),
        ({"chat_template": CHATML}, [], ["<|end|>"]),
        # Nothing stops at the template's end, as in a base of Qwen2.5: what does, comes after it.
        ({"eos_token": "<|pad|>"}, [], ["<|end|>", "<|pad|>"]),
        # The template writes no end.
        ({"chat_template": "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"}, [], ["<|end|>"]),
    ],
)
def test_an_example_ends_as_the_template_ends_a_turn(
    tmp_path: Path, problems: str, changes: dict[str, Any], stops: Sequence[int], learned: Sequence[str]
) -> None:
    tokenizer = starter(**changes)
    lines = [{"problem": "Return x.", "chosen": "def f(x): return x", "rejected": "pass"}]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    config = data(max_length=5000, stops=stops, vocabulary=640)
    row = ExampleDataset(problems, tokenizer, config)[0]
    chosen, _ = PairDataset(str(tmp_path / "pairs.jsonl"), tokenizer, config)[0]
    answer = tokenizer("def f(x): return x", add_special_tokens=False)["input_ids"]
    for one in (row, chosen):
        assert one["input_ids"][one["loss_mask"] == 1].tolist() == answer + tokenizer.convert_tokens_to_ids(learned)


def test_a_token_that_the_base_has_no_row_for_is_refused_by_its_problem(problems: str) -> None:
    config = data(max_prompt_length=500, vocabulary=ord("R") + 1)
    with pytest.raises(InvalidArgument, match=r"p0 has the token 120, and the base knows 83 \(vocab_size in config"):
        PromptDataset(problems, Letters(), config)


def test_a_conversation_that_the_template_refuses_is_named(tmp_path: Path) -> None:
    strict = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHATML
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Add."}]
    line = {name: [*asked, {"role": "assistant", "content": name}] for name in ("chosen", "rejected")}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(line))
    config = data(max_length=300)
    with pytest.raises(InvalidArgument, match="refuses a conversation of system, user: no system"):
        PairDataset(str(tmp_path / "pairs.jsonl"), starter(chat_template=strict), config)


def test_an_answer_after_which_the_engine_stopped_keeps_the_end_that_it_wrote() -> None:
    tokenizer = starter(eos_token="<|pad|>")
    end, asked, replies = ending(tokenizer, [], "chat"), [Message("user", "Ask.")], [Message("user", "No.")]
    answer = tokenizer("x", add_special_tokens=False)["input_ids"]
    between = reply_ids(tokenizer, asked, replies, [*answer, *end.tokens], end)
    assert tokenizer.decode(between) == "<|user|>No.<|assistant|>"


def test_what_nothing_ends_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="nothing ends an answer"):
        ending(starter(eos_token=None), [], "chat")


@pytest.mark.parametrize(
    ("content", "said"),
    [("m['content'] | upper", "not as it is"), ("m['content'] ~ m['content']", "more than once")],
)
def test_a_template_that_loses_an_answer_is_said(content: str, said: str) -> None:
    tokenizer = starter(chat_template="{% for m in messages %}{{ " + content + " }}{% endfor %}")
    with pytest.raises(InvalidArgument, match=said):
        ending(tokenizer, [1], "chat")


def test_examples_are_turns_of_the_chat_template(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(STARTER)
    read = [Problem(f"p{n}", f"Return {n}.", (CallTest.of([], n),), "f", (f"def f(): return {n}",)) for n in range(3)]
    problems = str(tmp_path / "mine.jsonl")
    jsonl.write(read, Path(problems))
    shown = data(max_prompt_length=4096, max_length=4096, system="Be brief.", examples=problems, shots=1)
    first, second = (problem for problem in PromptDataset(problems, tokenizer, shown).problems[:2])
    assert [one.id for one in first.examples] != [first.id]
    (example,) = second.examples
    said = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": example.prompt},
        {"role": "assistant", "content": example.references[0]},
        {"role": "user", "content": second.prompt},
    ]
    whole = tokenizer.apply_chat_template(said, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert prompt_ids(tokenizer, prompt_of(second, "chat")) == whole
    rows = ExampleDataset(problems, tokenizer, shown)
    learned = rows[1]["input_ids"][rows[1]["loss_mask"] == 1]
    assert rows[1]["input_ids"][: len(whole)].tolist() == whole
    assert second.references[0] in tokenizer.decode(learned)
    assert example.references[0] not in tokenizer.decode(learned)
    changed = data(max_prompt_length=4096, examples=problems, shots=1, examples_digest="sha256:another")
    with pytest.raises(DataLoss, match="has changed since the run was created"):
        PromptDataset(problems, tokenizer, changed)
    assert data_digest(read) == PromptDataset(problems, tokenizer, shown).digest
