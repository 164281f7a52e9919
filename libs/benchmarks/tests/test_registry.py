"""Sets by name: parts, editions, own sets, files, and what is said where something is missing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import ratchet_benchmarks
from ratchet_benchmarks import BENCHMARKS, fetching
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound

Published = Callable[[str], Path]
HUMAN_EVAL = "humaneval/HumanEval.jsonl.gz"


def test_what_is_not_here_says_how_to_bring_it() -> None:
    for use in (ratchet_benchmarks.load, ratchet_benchmarks.require):
        with pytest.raises(NotFound, match="ratchet data fetch humaneval`"):
            use("humaneval")
        with pytest.raises(NotFound, match=r"ratchet data fetch mbpp\+@v0.1.0`"):
            use("mbpp+@v0.1.0/base")
        with pytest.raises(NotFound, match="use one of humaneval, "):
            use("humanevil")
        with pytest.raises(NotFound, match="mbpp has no part 'tests': use mbpp, mbpp/prompt"):
            use("mbpp/tests")


def test_own_sets_and_files_need_no_data(tmp_path: Path) -> None:
    basics = ratchet_benchmarks.load("basics", limit=3)
    assert (len(basics.problems), basics.version) == (3, "")
    assert basics.digest != ratchet_benchmarks.load("basics").digest
    record = {"id": "one", "prompt": "Add one.", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}
    for name, text in (("set.jsonl", json.dumps(record)), ("set.json", json.dumps([record]))):
        (tmp_path / name).write_text(text)
        loaded = ratchet_benchmarks.load(str(tmp_path / name))
        assert [problem.id for problem in loaded.problems] == ["one"]
        assert loaded.put(loaded.problems[0], "chat").messages[0].content == "Add one."


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    record = {"prompt": "Add one.", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}
    path.write_text(json.dumps(record))
    assert ratchet_benchmarks.load(str(path)).problems[0].prompt == "Add one."
    path.write_text(json.dumps(record | {"prompt": "Add one, please."}))
    assert ratchet_benchmarks.load(str(path)).problems[0].prompt == "Add one, please."


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="No such file"):
        ratchet_benchmarks.require(str(tmp_path / "set.jsonl"))


def test_human_eval(published: Published) -> None:
    fetching.take(BENCHMARKS["humaneval"], published(HUMAN_EVAL))
    loaded = ratchet_benchmarks.load("humaneval")
    assert (len(loaded.problems), loaded.version) == (164, "2021-07")
    problem = loaded.problems[0]
    prompt = ratchet_benchmarks.put("humaneval", problem, "completion")
    assert prompt.text == problem.prompt
    assert "\nclass" in prompt.stop
    assert "```python" in ratchet_benchmarks.put("humaneval", problem, "chat").messages[0].content
    assert ratchet_benchmarks.program("humaneval", problem, "    pass\n") == f"{problem.prompt}    pass\n"


@pytest.mark.parametrize(
    ("name", "count"),
    [("mbpp", 500), ("mbpp/all", 974), ("mbpp/train", 374), ("mbpp/validation", 90), ("mbpp/prompt", 10)],
)
def test_mbpp_has_its_official_splits(published: Published, name: str, count: int) -> None:
    fetching.take(BENCHMARKS["mbpp"], published("mbpp/mbpp.jsonl"))
    assert len(ratchet_benchmarks.load(name).problems) == count


def test_mbpp_is_put_as_in_its_paper(published: Published) -> None:
    fetching.take(BENCHMARKS["mbpp"], published("mbpp/mbpp.jsonl"))
    loaded = ratchet_benchmarks.load("mbpp")
    prompt = loaded.put(loaded.problems[0], "completion")
    assert (prompt.shots, prompt.stop) == (3, ("[DONE]",))
    assert prompt.text.count("[BEGIN]\n") == 4
    assert prompt.text.count("[DONE]\n") == 3
    assert prompt.text.endswith("[BEGIN]\n")
    assert loaded.put(loaded.problems[0], "completion", 0).text.count("[BEGIN]") == 1
    assert loaded.program(loaded.problems[0], "def f(): pass\n[DONE]\nmore") == "def f(): pass\n"


def test_sanitized_mbpp_has_its_official_test_split(published: Published) -> None:
    fetching.take(BENCHMARKS["mbpp-sanitized"], published("mbpp/sanitized-mbpp.json"))
    assert len(ratchet_benchmarks.load("mbpp-sanitized").problems) == 257


def test_evalplus_must_be_prepared_first(published: Published) -> None:
    fetching.take(BENCHMARKS["mbpp+"], published("evalplus/MbppPlus-v0.1.0.jsonl.gz"))
    ratchet_benchmarks.require("mbpp+")  # the only edition that is here
    with pytest.raises(FailedPrecondition, match=r"ratchet benchmarks verify mbpp\+`"):
        ratchet_benchmarks.load("mbpp+")
    with pytest.raises(NotFound, match=r"mbpp\+@v0.2.0"):
        ratchet_benchmarks.require("mbpp+@v0.2.0")


@pytest.mark.parametrize(
    ("name", "file", "count"),
    [
        ("humaneval-cpp", "humaneval-x/humaneval_cpp.jsonl.gz", 164),
        ("humaneval-java", "humaneval-x/humaneval_java.jsonl.gz", 164),
        ("humaneval-js", "humaneval-x/humaneval_js.jsonl.gz", 164),
        ("leetcode", "leetcode/LeetCodeDataset-v0.2.0-test.jsonl.gz", 200),
        ("codecontests", "codecontests/codecontests_py_300.jsonl.gz", 300),
        ("apps", "apps/APPS_selected150.jsonl", 150),
        ("bigcodebench", "bigcodebench/BigCodeBench-v0.1.4-derived.jsonl.gz", 1140),
        ("bigcodebench-hard", "bigcodebench/BigCodeBench-Hard-v0.1.0_hf.jsonl.gz", 148),
    ],
)
def test_others_are_read_and_put(published: Published, name: str, file: str, count: int) -> None:
    fetching.take(BENCHMARKS[name], published(file))
    loaded = ratchet_benchmarks.load(name)
    assert len(loaded.problems) == count
    for problem in loaded.problems[:20]:
        assert loaded.put(problem, "chat").messages[0].content.strip()
        text = loaded.put(problem, "completion").text
        assert text.strip()
        assert problem.entry_point.rpartition(".")[2] in text


def test_each_difficulty_of_leetcode_is_a_part(published: Published) -> None:
    fetching.take(BENCHMARKS["leetcode"], published("leetcode/LeetCodeDataset-v0.2.0-test.jsonl.gz"))
    parts = {part: ratchet_benchmarks.load(f"leetcode/{part}").problems for part in ("easy", "medium", "hard")}
    assert {part: len(found) for part, found in parts.items()} == {"easy": 51, "medium": 102, "hard": 47}
    assert {one.difficulty for one in parts["easy"]} == {1}


def test_bigcodebench_has_both_forms_and_shares_the_process(published: Published) -> None:
    fetching.take(BENCHMARKS["bigcodebench-hard"], published("bigcodebench/BigCodeBench-Hard-v0.1.4-derived.jsonl.gz"))
    instruct, complete = (ratchet_benchmarks.load(f"bigcodebench-hard{part}") for part in ("", "/complete"))
    problem = instruct.problems[0]
    assert problem.forgeable
    assert problem.tags
    assert "You should write self-contained code starting with" in instruct.put(problem, "chat").messages[0].content
    assert problem.prompt.strip() in complete.put(problem, "chat").messages[0].content
    assert instruct.put(problem, "completion").text == problem.prompt.strip() + "\n"
    program = instruct.program(problem, "    return 1\n")
    assert program.endswith(f"{problem.prompt}    return 1\n")
    assert "\n    pass\n" in program
