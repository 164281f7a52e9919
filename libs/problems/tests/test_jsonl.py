"""Users' files: what goes round, and what is said about what does not."""

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from ratchet_kit import json_text, syntax
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import AnswerTest, CallTest, CheckTest, InvalidProblem, Message, Problem, StdioTest, jsonl, load

GOOD = {"prompt": "Write f(x).", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}


def written(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    call = Problem(
        id="a",
        prompt="Write f(x): ü.\u2028As it is\x85here.",
        entry_point="f",
        tests=(
            CallTest.of([(1,), {2: 3}], {4}),
            CallTest("[1]", "0.1", tolerance=0.01),
            CallTest("[2]", raises="KeyError"),
            CallTest("[3]", "[1]", unordered=True, held_out=True),
            CheckTest("assert f(1)", held_out=True),
        ),
        references=("def f(x):\n    return x\n",),
        difficulty=3,
        source="here",
        licence="MIT",
        structure="one",
    )
    others = [
        Problem(id="b", prompt="Echo.", tests=(StdioTest("1\n", "1"), StdioTest("1.5", "1.5", True, 1e-6))),
        Problem(id="c", prompt="Write g.", entry_point="g", tests=(CheckTest("def check(g): assert g()"),)),
    ]
    path = tmp_path / "set.jsonl"
    jsonl.write([call, *others], path)
    back = load(str(path))
    assert back == (call, *others)
    assert [problem.digest for problem in back] == [problem.digest for problem in (call, *others)]


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [("42", ("42",)), (42, ("42",)), (0.5, ("0.5",)), (["Paris", "Lutetia"], ("Paris", "Lutetia"))],
)
def test_a_right_answer_may_stand_for_tests(tmp_path: Path, answer: object, accepted: tuple[str, ...]) -> None:
    (problem,) = load(str(written(tmp_path / "set.jsonl", {"prompt": "How much?", "answer": answer})))
    assert (problem.tests, problem.answers) == ((AnswerTest(accepted),), accepted)
    again = tmp_path / "again.jsonl"
    jsonl.write([problem], again)
    assert load(str(again)) == (problem,)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"answer": ""}, "answer: must not be empty"),
        ({"answer": []}, "answer: must be 1 to 100 texts, not 0"),
        ({"answer": True}, "answer: must be text, not true or false"),
        ({"answer": "1", "tests": [{"stdin": "", "expected_stdout": "1"}]}, "answer: must be alone"),
        ({"answer": "1", "entry_point": "f"}, "entry_point: must be left out"),
        ({"answer": "1", "language": "go"}, "language: must be left out"),
    ],
)
def test_a_right_answer_stands_alone(tmp_path: Path, row: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidProblem, match=reason):
        load(str(written(tmp_path / "set.jsonl", {"prompt": "How much?"} | row)))


SYSTEM, USER, ANSWER = (
    {"role": role, "content": content}
    for role, content in (("system", "Answer in Python."), ("user", "Write f(x)."), ("assistant", "def f(x): ..."))
)


def test_a_prompt_may_be_a_conversation_that_ends_with_the_user(tmp_path: Path) -> None:
    said = [SYSTEM, USER, ANSWER, {"role": "user", "content": "It must return 2."}]
    path = tmp_path / "set.jsonl"
    (problem,) = load(str(written(path, GOOD | {"prompt": said})))
    assert (problem.prompt, problem.conversation[0]) == ("It must return 2.", Message("system", "Answer in Python."))
    assert problem.to_json()["prompt"] == said
    jsonl.write([problem], path)
    assert load(str(path)) == (problem,)
    (alone,) = load(str(written(path, GOOD | {"prompt": [USER]})))
    assert alone.digest == load(str(written(path, GOOD)))[0].digest


@pytest.mark.parametrize(
    ("prompt", "path", "said"),
    [
        ([], "prompt", "must be a list of messages"),
        ([SYSTEM], "prompt[0].role", "must be user: the last message, not system's"),
        ([USER, ANSWER], "prompt[1].role", "must be user: the last message, not assistant's"),
        ([{"role": "tool", "content": "3"}, USER], "prompt[0].role", "must be one of system, user, assistant"),
        ([SYSTEM | {"content": " "}, USER], "prompt[0].content", "must be a text that is not empty"),
        ([{"role": "user"}], "prompt[0]", "must have role and content, and nothing else"),
        (["Write f(x)."], "prompt[0]", "must have role and content, and nothing else"),
        (3, "prompt", "must be text, not a number"),
    ],
)
def test_a_conversation_at_fault_is_told_by_its_message(tmp_path: Path, prompt: object, path: str, said: str) -> None:
    with pytest.raises(InvalidProblem) as caught:
        load(str(written(tmp_path / "mine.jsonl", GOOD, GOOD | {"prompt": prompt})))
    assert (caught.value.where, caught.value.path, caught.value.reason) == ("mine.jsonl line 2", path, said)


def test_references_may_stand_alone(tmp_path: Path) -> None:
    line = {"prompt": "Write f(x).", "references": ["def f(x): ..."]}
    (problem,) = load(str(written(tmp_path / "sft.jsonl", line)))
    assert (problem.tests, problem.references) == ((), ("def f(x): ...",))


def test_a_problem_without_tests_says_so(tmp_path: Path) -> None:
    (problem,) = load(str(written(tmp_path / "alone.jsonl", {"prompt": "Write a poem.", "tests": []})))
    assert (problem.tests, problem.references) == ((), ())
    with pytest.raises(InvalidProblem, match=r"must be there, or an answer or references; \[\] says that it has none"):
        load(str(written(tmp_path / "none.jsonl", {"prompt": "Write a poem."})))


def test_the_composed_sets_go_round(tmp_path: Path) -> None:
    jsonl.write(load("composed/validation"), tmp_path / "v.jsonl")
    assert load(str(tmp_path / "v.jsonl")) == load("composed/validation")


def test_json_values_become_literals_and_ids_come_from_the_line(tmp_path: Path) -> None:
    record = GOOD | {"tests": [{"args": [[1, None]], "expected": {"a": True}}]}
    (problem,) = load(str(written(tmp_path / "mine.jsonl", "", record)))
    assert problem == replace(problem, id="mine/2", tests=(CallTest("[[1, None]]", "{'a': True}"),))


@pytest.mark.parametrize(
    ("line", "field", "reason"),
    [
        ("{", "line", "not JSON at column 2"),
        ("[" * 100_000, "line", "nested too deeply"),
        ([1], "line", "a list"),
        (GOOD | {"prompt": None}, "prompt", "null"),
        ({"entry_point": "f", "tests": []}, "prompt", "missing"),
        ({"prompt": "x"}, "tests", "must be there"),
        (GOOD | {"tests": {}}, "tests", "an object"),
        (GOOD | {"tests": [3]}, "tests[0]", "a number"),
        (GOOD | {"tests": [{}]}, "tests[0]", "must have"),
        (GOOD | {"tests": [{"args": [1]}]}, "tests[0].expected", "missing"),
        (GOOD | {"tests": [{"args": 1, "expected": 1}]}, "tests[0].args", "a number"),
        (GOOD | {"tests": [{"args": "[1]", "expected": 1}]}, "tests[0].expected", "text"),
        (GOOD | {"tests": [{"args": "1 +", "expected": "1"}]}, "tests[0].args", "1 +"),
        (GOOD | {"tests": [{"args": [1], "expected": 1, "timeout": 2}]}, "tests[0].timeout", "does not belong"),
        (GOOD | {"tests": [{"args": [1], "expected": 1, "tolerance": "x"}]}, "tests[0].tolerance", "a number"),
        (GOOD | {"tests": [{"stdin": "", "expected_stdout": "", "tolerance": -1}]}, "tests[0].tolerance", "0 or more"),
        (GOOD | {"tests": [{"stdin": 1, "expected_stdout": ""}]}, "tests[0].stdin", "text"),
        (
            GOOD | {"tests": [{"args": [1], "raises": "ValueError", "expected": 1}]},
            "tests[0].expected",
            "does not belong",
        ),
        (GOOD | {"tests": [{"args": [1], "raises": "no name"}]}, "tests[0].raises", "no name"),
        (GOOD | {"tests": [{"args": [1], "expected": 1, "unordered": True}]}, "tests[0].unordered", "list or tuple"),
        (GOOD | {"tests": [{"args": [1], "expected": 1, "held_out": 1}]}, "tests[0].held_out", "true or false"),
        (GOOD | {"references": ["a", 2]}, "references[1]", "a number"),
        (GOOD | {"difficulty": True}, "difficulty", "true or false"),
        (GOOD | {"difficulty": 9}, "difficulty", "1 to 5"),
        ('{"prompt": "x", "references": ["y"], "difficulty": 1%s}' % ("0" * 5000), "difficulty", "1 to 5"),
        (GOOD | {"entry_point": "2f"}, "entry_point", "neither a Python name"),
        (GOOD | {"id": "a\x00"}, "id", "NUL"),
        (
            GOOD | {"tests": [{"stdin": "x" * (17 << 20), "expected_stdout": ""}]},
            "tests[0].stdin",
            "than 16777216 bytes",
        ),
        (GOOD | {"prompt": "\ud800"}, "text", "surrogate"),
        (
            '{"prompt": "x", "entry_point": "f", "tests": [{"args": [1], "expected": 1, "tolerance": 1%s}]}'
            % ("0" * 5000),
            "tests[0].tolerance",
            "finite number",
        ),
        (
            GOOD | {"tests": [{"args": [1], "expected": 1, "tolerance": math.nan}]},
            "tests[0].tolerance",
            "finite number",
        ),
        (
            GOOD | {"tests": [{"args": "[true]", "expected": "1"}]},
            "tests[0].args",
            "Python has no true: it writes None, True",
        ),
        (
            GOOD | {"tests": [{"args": "[]", "expected": "[" * 300 + "]" * 300}]},
            "tests[0].expected",
            "nested too deeply",
        ),
        (
            GOOD | {"tests": [{"args": "[]", "expected": "9" * 100_001}]},
            "tests[0].expected",
            "of 100001 digits; at most",
        ),
        (f'{{"difficulty": {"9" * 100_001}}}', "line", "of 100001 digits; at most 100000 are allowed"),
        ('{"prompt": "x", "tests": [{"args": [1], "args": [2]}]}', "line", "has 'args' twice in one object"),
        ('{"prompt": "a\x00"}', "line", "not JSON at column"),
        (GOOD | {"canonical_solution": "x"}, "canonical_solution", "unknown field"),
        (GOOD | {"id": "first"}, "id", "already"),
    ],
)
def test_a_bad_line_is_named_with_its_field(tmp_path: Path, line: object, field: str, reason: str) -> None:
    path = written(tmp_path / "mine.jsonl", GOOD | {"id": "first"}, line)
    with pytest.raises(InvalidProblem) as caught:
        load(str(path))
    assert (caught.value.where, caught.value.path) == ("mine.jsonl line 2", field)
    assert reason in caught.value.reason


def test_numbers_are_as_long_as_users_write_them(tmp_path: Path) -> None:
    """Python reads and writes 4,300 digits."""
    digits = "9" * 50_000
    record = json.dumps(GOOD | {"tests": [{"args": [{"a": 0}, -1], "expected": 0}, {"args": "[2]", "expected": "2"}]})
    line = record.replace("0}, -1", f"{digits}}}, -{digits}").replace("2", digits)
    (problem,) = load(str(written(tmp_path / "mine.jsonl", line)))
    number = json_text.whole(digits)
    call, literal = problem.tests
    assert isinstance(call, CallTest)
    assert isinstance(literal, CallTest)
    assert syntax.value(call.args) == [{"a": number}, -number]
    assert syntax.value(literal.expected) == number
    assert load(str(written(tmp_path / "again.jsonl", problem.to_json()))) == (problem,)


def test_what_json_lacks_is_read(tmp_path: Path) -> None:
    lines = [
        '{"prompt": "x", "entry_point": "f", "tests": [{"args": [Infinity, NaN, 1e999], "expected": -Infinity}]}',
        '{"prompt": "a\u2028b", "entry_point": "f", "tests": [{"args": "[inf]", "expected": "{nan: (inf,)}"}]}\r',
    ]
    path = written(tmp_path / "mine.jsonl", *lines)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    one, two = load(str(path))
    assert one.tests == (CallTest("[inf, nan, inf]", "-inf"),)
    assert two.prompt == "a\u2028b"


def test_a_file_that_is_no_set_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match="No such file"):
        load(str(tmp_path / "none.jsonl"))
    with pytest.raises(InvalidProblem, match="no problems"):
        load(str(written(tmp_path / "empty.jsonl", "", " ")))
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidProblem, match="UTF-8"):
        load(str(tmp_path / "binary.jsonl"))
    (tmp_path / "packed.jsonl").write_bytes(gzip.compress(b"{}"))
    with pytest.raises(InvalidProblem, match="is compressed: unpack it"):
        load(str(tmp_path / "packed.jsonl"))


def test_all_faults_of_a_file_are_said_at_once_up_to_twenty(tmp_path: Path) -> None:
    good = {"prompt": "p", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}
    rows = [good, {"promt": "p"}, good, {"prompt": ""}]
    path = tmp_path / "set.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InvalidArgument) as refused:
        jsonl.read(path)
    first, second = refused.value.message.split("; ", 1)[0], refused.value.message
    assert first.startswith("set.jsonl line 2: promt: unknown field")
    assert "set.jsonl line 4: tests: must be there" in second
    path.write_text("\n".join(["{"] * 30))
    with pytest.raises(InvalidArgument, match=r"line 1 and 19 more: .*; there may be more"):
        jsonl.read(path)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"prompt": "p"}\n{"prompt": "\xe9"}', r"line 2 is not UTF-8 at its byte 13: save the file as UTF-8"),
        ('{"prompt": "p"}'.encode("utf-16"), r"line 1 is UTF-16: save the file as UTF-8"),
    ],
)
def test_another_encoding_is_named_with_its_line(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "set.jsonl"
    path.write_bytes(data)
    with pytest.raises(InvalidProblem, match=reason):
        jsonl.read(path)
