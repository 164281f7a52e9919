"""CodeContests and APPS, as their makers publish them and as they are selected."""

import json

from ratchet_benchmarks import BENCHMARKS
from ratchet_problems import CallTest, Problem, StdioTest

CODE_CONTESTS, APPS = BENCHMARKS["codecontests"], BENCHMARKS["apps"]
CONTEST = {"name": "1_A. Sum", "description": "Add.", "difficulty": 8, "cf_tags": ["", "math"]}
APP = {"problem_id": 7, "question": "Add.", "difficulty": "interview", "starter_code": ""}


def printed(stdin: str, stdout: str) -> StdioTest:
    """Decimals within the tolerance of most competitions."""
    return StdioTest(stdin, stdout, tolerance=1e-6)


def contest(row: dict[str, object]) -> Problem:
    return CODE_CONTESTS.read([CODE_CONTESTS.adapt(CONTEST | row)], "", {}).problems[0]


def app(row: dict[str, object]) -> Problem:
    return APPS.read([APPS.adapt(APP | row)], "", {}).problems[0]


def test_contests_of_both_forms() -> None:
    none: dict[str, list[str]] = {"input": [], "output": []}
    published = {
        "public_tests": {"input": ["1 2\n"], "output": ["3\n"]},
        "private_tests": none,
        "generated_tests": {"input": ["2 2\n"], "output": ["4\n"]},
        "solutions": {"language": [2, 3], "solution": ["c++", "python"]},
    }
    pairs = [{"input": "1 2", "output": "3"}, {"input": "2 2", "output": "4"}]
    first, second = contest(published), contest({"tests": pairs, "solution_python3": "python"})
    assert first.tests == second.tests == (printed("1 2\n", "3\n"), printed("2 2\n", "4\n"))
    assert first.references == ("python",)
    assert (first.tags, first.difficulty) == (("math",), 2)


def test_apps_on_standard_input() -> None:
    both = {"inputs": ["1 2\n", ["2", "2"]], "outputs": ["3\n", ["4"]]}
    found = app({"input_output": json.dumps(both), "solutions": json.dumps(["print(3)"])})
    assert found.tests == (printed("1 2\n", "3\n"), printed("2\n2\n", "4\n"))
    assert (found.references, found.entry_point, found.difficulty) == (("print(3)",), "", 3)


def test_apps_by_call() -> None:
    both = {"fn_name": "add", "inputs": [[1, 2]], "outputs": [[3]]}
    starter = "class Solution:\n    def add(self, a, b):\n"
    found = app({"input_output": json.dumps(both), "solutions": "", "starter_code": starter})
    assert found.tests == (CallTest("[1, 2]", "3"),)
    assert found.entry_point == "Solution.add"
    assert starter.strip() in found.prompt


def test_apps_of_mapcoder() -> None:
    row = {"id": 7, "description": "Add.", "test_list": [{"input": "ab\n[1]", "output": [True]}]}
    found = app(row | {"starter_code": "\ndef f(a, b):\n\t"})
    assert found.tests == (CallTest("['ab', [1]]", "True"),)
    assert (found.id, found.entry_point) == ("APPS/7", "f")
    plain = app({"id": 7, "description": "Add.", "test_list": [{"input": "1", "output": ["2\n"]}]})
    assert plain.tests == (printed("1\n", "2\n"),)
