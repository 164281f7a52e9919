"""Files that others published, added by their columns alone or refused in a sentence that says what to do."""

from itertools import islice
from pathlib import Path

import pytest

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import examine, mapping

DATA = Path(__file__).parents[4] / "shared" / "data"
TAKEN = {
    "humaneval/HumanEval.jsonl.gz": 164,
    "humaneval/example_problem.jsonl": 1,
    "mbpp/mbpp.jsonl": 974,
    "mbpp/sanitized-mbpp.json": 427,
    "codecontests/codecontests_py_300.jsonl.gz": 300,
    "leetcode/LeetCodeDataset-v0.2.0-test.jsonl.gz": 200,
    "humaneval-x/humaneval_python.jsonl.gz": 164,
}
IN_A_LANGUAGE = ("cpp", "java", "js", "go", "rust")
REFUSED = {
    "evalplus/HumanEvalPlus.jsonl.gz": r"rows of EvalPlus, .* `ratchet data fetch humaneval\+`",
    "evalplus/MbppPlus.jsonl.gz": r"rows of EvalPlus, .* `ratchet data fetch humaneval\+`",
    "bigcodebench/BigCodeBench-v0.1.4-derived.jsonl.gz": r"no column is the prompt: .* such as prompt=complete_prompt",
    "classeval/ClassEval.jsonl.gz": r"no column is the prompt: .* such as prompt=skeleton",
    "apps/APPS_selected150.jsonl": r"line 1 and 18 more: tests\[0\]: must have args and expected",
}


def file(name: str) -> Path:
    if not (DATA / name).is_file():
        pytest.skip(f"{name} is not in ../shared/data")
    return DATA / name


def columns(path: Path, **wanted: str) -> mapping.Columns:
    return mapping.columns((name for _, row in islice(mapping.rows(path), 100) for name in row), wanted)


@pytest.mark.parametrize("name", TAKEN)
def test_it_is_taken_as_it_is(name: str) -> None:
    path = file(name)
    problems = list(mapping.problems(path, columns(path)))
    assert len(problems) == TAKEN[name]
    assert all(problem.tests for problem in problems)
    assert len({problem.prompt for problem in problems}) > 0.9 * len(problems)  # LeetCode's `prompt` is a prelude
    assert [fault for problem in problems if (fault := examine(problem))] == []


@pytest.mark.parametrize("language", IN_A_LANGUAGE)
def test_it_is_taken_once_its_language_is_said(language: str) -> None:
    path = file(f"humaneval-x/humaneval_{language}.jsonl.gz")
    problems = list(mapping.problems(path, columns(path, language=language)))
    assert len(problems) == 164
    assert all(problem.forgeable for problem in problems)


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_what_to_do(name: str) -> None:
    path = file(name)
    with pytest.raises(InvalidArgument, match=REFUSED[name]):
        list(mapping.problems(path, columns(path)))


def test_classes_are_taken_by_a_mapping() -> None:
    path = file("classeval/ClassEval.jsonl.gz")
    wanted = {"prompt": "skeleton", "references": "solution_code", "entry_point": "class_name"}
    assert len(list(mapping.problems(path, columns(path, **wanted)))) == 100
