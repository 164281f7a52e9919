"""The door for SandboxFusion's users, through the client that they have from PyPI, as it is."""

import asyncio
import base64
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
import sandbox_fusion
from sandbox_fusion import models

from sandbox_service.fusion import shapes

pytestmark = pytest.mark.integration

DoorOver = Callable[..., AbstractContextManager[str]]
HUMAN_EVAL = {
    "task_id": "HumanEval/0",
    "prompt": 'def add(a: int, b: int) -> int:\n    """The sum."""\n',
    "canonical_solution": "    return a + b\n",
    "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert math.isclose(candidate(0.5, 1), 1.5)\n",
    "entry_point": "add",
}
MBPP = {
    "id": 7,
    "content": "Write a function to add.",
    "labels": json.dumps({"test_setup_code": "import math", "test_imports": []}),
    "test_list": json.dumps(["assert add(1, 2) == 3", "assert math.floor(add(0.5, 1)) == 1"]),
}
CODE_CONTESTS = {
    "id": 1,
    "content": "Print the sum.",
    "labels": {},
    "test": [{"input": {"stdin": f"{n} 2\n"}, "output": {"stdout": f"{n + 2}\n"}} for n in range(5)],
}
SUM = "```python\na, b = map(int, input().split())\nprint(a + b)\n```"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    (folder / "mbpp.jsonl").write_text(json.dumps(MBPP) + "\n")
    return folder


@pytest.fixture(scope="module")
def url(rows: Path, fusion_service: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    with fusion_service(RATCHET_SANDBOX_DATASETS_DIR=str(rows)) as url:
        yield url


@pytest.fixture(autouse=True)
def endpoint(url: str) -> None:
    sandbox_fusion.set_endpoint(url)


def run(code: str, language: str = "python", **more: Any) -> sandbox_fusion.RunCodeResponse:
    request = sandbox_fusion.RunCodeRequest(code=code, language=language, **more)
    return sandbox_fusion.run_code(request, max_attempts=1, client_timeout=40)


def submit(row: Any, completion: str, dataset: str = "mine", **config: Any) -> sandbox_fusion.models.EvalResult:
    return sandbox_fusion.submit(
        sandbox_fusion.SubmitRequest(
            dataset=dataset,
            id=0,
            completion=completion,
            config=sandbox_fusion.TestConfig(provided_data=row, **config),
        ),
        max_attempts=1,
        client_timeout=60,
    )


# What is sent and answered, against the client's own models


def test_the_words_are_those_of_the_client() -> None:
    for ours, theirs in ((shapes.RunStatus, models.RunStatus), (shapes.CommandRunStatus, models.CommandRunStatus)):
        assert {word.value for word in ours} == {word.value for word in theirs}
    assert set(get_args(models.Language)) <= set(get_args(shapes.Language))


@pytest.mark.parametrize(
    "name",
    [
        "RunCodeRequest",
        "RunCodeResponse",
        "CommandRunResult",
        "SubmitRequest",
        "TestConfig",
        "EvalTestCase",
        "EvalResult",
    ],
)
def test_every_field_of_the_client_is_there(name: str) -> None:
    ours, theirs = getattr(shapes, name).model_fields, getattr(models, name).__fields__
    assert set(theirs) <= set(ours)
    for field, model in theirs.items():
        assert ours[field].is_required() == bool(model.required), field
        if not model.required:
            assert ours[field].get_default() == model.default, field


# /run_code


def test_a_program_runs() -> None:
    answer = run("import sys\nprint(input()[::-1])\nprint('aside', file=sys.stderr)", stdin="abc\n")
    assert (answer.status, answer.message, answer.compile_result) == (sandbox_fusion.RunStatus.Success, "", None)
    ran = answer.run_result
    assert (ran.status, ran.return_code, ran.stdout, ran.stderr) == ("Finished", 0, "cba\n", "aside\n")
    assert 0 < ran.execution_time < 10
    assert answer.executor_pod_name
    assert sandbox_fusion.summary_run_code_result(answer, sandbox_fusion.SummaryMapping()) == "Success"


async def test_a_program_runs_through_the_asynchronous_client() -> None:
    request = sandbox_fusion.RunCodeRequest(code="print(6 * 7)", language="python")
    answers = await asyncio.gather(*(sandbox_fusion.run_code_async(request, max_attempts=1) for _ in range(20)))
    assert [answer.run_result.stdout for answer in answers] == ["42\n"] * 20


@pytest.mark.parametrize(
    ("code", "return_code", "stderr"),
    [
        ("assert 1 == 2", 1, "AssertionError"),
        ("int a = 1", 1, "SyntaxError: invalid syntax"),
        ("import sys; sys.exit(3)", 3, ""),
        ("import os; os.abort()", -6, ""),
        ("print('a\0b')", 1, "null bytes"),
        ("(" * 100_000, 1, ""),
    ],
)
def test_a_program_that_fails_is_an_answer(code: str, return_code: int, stderr: str) -> None:
    answer = run(code)
    assert (answer.status, answer.run_result.status) == ("Failed", "Finished")
    assert answer.run_result.return_code == return_code
    assert stderr in answer.run_result.stderr
    assert sandbox_fusion.summary_run_code_result(answer, sandbox_fusion.SummaryMapping(RunFailed="bad")) == "bad"


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(30)"])
def test_a_timeout_counts_work_and_sleep(code: str) -> None:
    answer = run(code, run_timeout=0.3)
    assert (answer.status, answer.run_result.status) == ("Failed", "TimeLimitExceeded")
    assert answer.run_result.return_code is None
    assert answer.run_result.execution_time < 10


def test_a_short_sleep_is_no_timeout() -> None:
    assert run("import time; time.sleep(0.4)", run_timeout=2).status == "Success"


def test_memory_and_output_are_bounded(url: str) -> None:
    body = {"code": "x = bytearray(600 << 20)\nprint(len(x))", "language": "python"}
    assert httpx.post(f"{url}/run_code", json=body, timeout=30).json()["status"] == "Success"
    answer = httpx.post(f"{url}/run_code", json={**body, "memory_limit_MB": 256}, timeout=30).json()
    assert answer["status"] == "Failed"
    assert answer["run_result"]["return_code"] not in (0, None)
    assert answer["message"].startswith("memory limit")
    loud = httpx.post(f"{url}/run_code", json={"code": "while 1: print('x' * 999)", "language": "python"}, timeout=30)
    assert loud.json()["status"] == "Failed"
    assert loud.json()["message"].startswith("output limit")


def test_exit_zero_from_inside_is_what_it_says(url: str) -> None:
    """/run_code has no tests: like SandboxFusion it tells the exit status, and /submit is where grading is."""
    assert run("import os; os._exit(0)").status == "Success"


# /submit


def test_human_eval() -> None:
    kind = {"dataset": "humaneval_python"}
    right = submit(HUMAN_EVAL, HUMAN_EVAL["canonical_solution"] + "\n\ndef random", **kind)
    assert right.accepted
    assert [test.passed for test in right.tests] == [True]
    assert right.tests[0].exec_info.status == "Success"
    answer = f"Here:\n```python\n{HUMAN_EVAL['prompt']}{HUMAN_EVAL['canonical_solution']}```\nDone."
    assert submit(HUMAN_EVAL, answer, extra={"is_freeform": True}, **kind).accepted
    wrong = submit(HUMAN_EVAL, "    return a - b\n", **kind)
    assert (wrong.accepted, wrong.tests[0].exec_info.status) == (False, "Failed")
    assert wrong.tests[0].exec_info.run_result.return_code == 1


def test_mbpp_from_the_request_and_from_the_folder() -> None:
    right = "[BEGIN]```python\ndef add(a, b):\n    return a + b\n```"
    for row in (MBPP, None):
        result = sandbox_fusion.submit(
            sandbox_fusion.SubmitRequest(
                dataset="mbpp", id=7, completion=right, config=sandbox_fusion.TestConfig(provided_data=row)
            ),
            max_attempts=1,
        )
        assert result.accepted
        assert "import math" in result.extracted_code
    assert not submit(MBPP, right.replace("+", "*"), "mbpp").accepted


def test_code_contests() -> None:
    right = submit(CODE_CONTESTS, SUM, "code_contests", language="python")
    assert (right.accepted, len(right.tests)) == (True, 5)
    assert right.tests[0].test_info == {"input": {"stdin": "0 2\n"}, "output": {"stdout": "2\n"}}
    wrong = SUM.replace("a + b", "2 * b if a == 1 else a + b")
    assert [test.passed for test in submit(CODE_CONTESTS, wrong, "code_contests", language="python").tests] == [
        True,
        False,
    ]
    every = submit(CODE_CONTESTS, wrong, "code_contests", language="python", extra={"run_all_cases": True})
    assert [test.passed for test in every.tests] == [True, False, True, True, True]


def test_a_case_may_expect_more_than_the_output_limit() -> None:
    row = CODE_CONTESTS | {"test": [{"input": {"stdin": "x\n" * 700_000}, "output": {"stdout": "x\n" * 700_000}}]}
    echo = "```python\nimport sys\nsys.stdout.write(sys.stdin.read())\n```"
    assert submit(row, echo, "code_contests", language="python").accepted


def test_live_code_bench() -> None:
    stdio = {"input_output": json.dumps({"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]})}
    assert submit({"id": 1, "labels": {}, "content": "", "test": stdio}, SUM, "live_code_bench_v1").accepted
    calls = {"inputs": ["[1, 2]\n3", "[]\n0"], "outputs": ["6", "0"], "fn_name": "total"}
    row = {"id": 2, "labels": {}, "content": "", "test": json.dumps({"input_output": json.dumps(calls)})}
    right = "```python\ndef total(items: List[int], more):\n    return sum(items) + more\n```"
    result = submit(row, right, "live_code_bench_v1")
    assert [entry["passed"] for entry in result.tests[0].test_info["results"]] == [True, True]
    assert not submit(row, right.replace("+", "-"), "live_code_bench_v1").accepted
    method = "```python\nclass Solution:\n    def total(self, items, more):\n        return sum(items) + more\n```"
    assert submit(row, method, "live_code_bench_v1").accepted


def test_auto_eval_and_mhpp() -> None:
    right = "```python\ndef add(a, b):\n    return a + b\n\nif __name__ == '__main__':\n    print(add(1, 1))\n```"
    row = {
        "id": 1,
        "content": "Add.",
        "labels": {"programming_language": "python"},
        "test": {"code": "def test():\n    assert add(1, 2) == 3\n    assert add('a', 'b') == 'ab'\n\ntest()\n"},
    }
    assert submit(row, right, dataset_type="AutoEvalDataset").accepted
    assert not submit(row, right.replace("+", "*"), dataset_type="AutoEvalDataset").accepted
    mhpp = {"id": 1, "content": "Add.", "labels": {}, "test": "assert add(1, 2) == 3\n"}
    assert submit(mhpp, right, "mhpp").accepted
    assert not submit(mhpp, right.replace("+", "*"), "mhpp").accepted


@pytest.mark.parametrize(
    "cheat",
    [
        "    import os; os._exit(0)\n",
        "    raise SystemExit(0)\n",
        "    class Same(int):\n        def __eq__(self, other): return True\n    return Same(0)\n",
        "    print('PASSED')\n    import builtins\n    builtins.AssertionError = KeyError\n    return 0\n",
    ],
)
def test_a_pass_cannot_be_faked(cheat: str) -> None:
    """The first three pass where the tests stand below the program and its exit status decides."""
    assert not submit(HUMAN_EVAL, cheat, "humaneval_python").accepted


BIG_CODE_BENCH = {
    "code_prompt": "import os\ndef task_func(path):",
    "entry_point": "task_func",
    "test": "import unittest\nfrom unittest.mock import patch\nclass TestCases(unittest.TestCase):\n"
    "    @patch('os.listdir', return_value=['a', 'b'])\n    def test_a(self, listdir):\n"
    "        self.assertEqual(task_func('/x'), 2)\n        listdir.assert_called_once_with('/x')\n",
}
INSERTED = {
    "labels": {"programming_language": "python"},
    "test": {"code": "RATE = 2\n#<INSERT>\nassert twice(3) == 6\nassert twice.__name__ == 'twice'\n"},
}
MULTIPL_E = {
    "prompt": "#include<assert.h>\nlong add(long a, long b) {\n",
    "tests": "}\nint main() {\n    assert(add(1, 2) == 3);\n}\n",
    "language": "cpp",
    "stop_tokens": ["\n}"],
}


@pytest.mark.parametrize(
    ("row", "kind", "right", "wrong"),
    [
        (BIG_CODE_BENCH, "BigCodeBenchDataset", "    return len(os.listdir(path))\n", "    return 2\n"),
        (
            BIG_CODE_BENCH,
            "BigCodeBenchDataset",
            "```python\ndef task_func(p):\n    return len(os.listdir(p))\n```",
            "",
        ),
        (
            INSERTED,
            "AutoEvalDataset",
            "```python\ndef twice(x):\n    return x * RATE\n```",
            "def twice(x): return x",
        ),
        (MULTIPL_E, "MultiPLEDataset", "    return a + b;\n}\nint x;", "    return a;\n}"),
    ],
)
def test_tests_that_share_the_programs_process_are_labelled(row: Any, kind: str, right: str, wrong: str) -> None:
    if kind == "MultiPLEDataset" and shutil.which("g++") is None:
        pytest.skip("there is no g++ here")
    found = [submit(row, completion, dataset_type=kind) for completion in (right, wrong)]
    assert [one.accepted for one in found] == [True, False], found
    assert [one.extra for one in found] == [{"forgeable": True}] * 2


def test_what_is_not_graded_here_is_said(url: str) -> None:
    def refused(dataset: str, row: Any, **config: Any) -> httpx.Response:
        body = {"dataset": dataset, "id": 3, "completion": "", "config": {"provided_data": row, **config}}
        return httpx.post(f"{url}/submit", json=body)

    assert (refused("verilogeval_human", {}).status_code, refused("mine", {"id": 1}).status_code) == (422, 422)
    assert refused("mine", {"id": 1}, dataset_type="MiniF2FLean4Dataset").status_code == 501
    inside = {"labels": {"programming_language": "python"}, "test": {"code": "x = '''#<INSERT>'''"}}
    assert "a line of its own" in refused("mine", inside, dataset_type="AutoEvalDataset").text
    in_java = {"prompt": "", "tests": "}", "language": "java"}
    assert refused("mine", in_java, dataset_type="MultiPLEDataset").status_code == 501
    assert refused("mbpp", None).status_code == 404
    assert refused("../mbpp", None, dataset_type="MBPPDataset").status_code == 404
    fault = refused("mbpp", {"labels": {}, "test_list": [1]}).json()["detail"][0]
    assert fault["loc"] == ["body", "config", "provided_data", "test_list"]
    assert httpx.get(f"{url}/list_datasets").json().count("mbpp") == 1
    for path in ("/run_jupyter", "/get_prompts", "/get_prompt_by_id"):
        answer = httpx.post(f"{url}{path}", json={})
        assert (answer.status_code, "/run_code" in answer.json()["detail"]) == (501, True)


# Bad input


# Faults of the platform


# Other languages, files, processes


HELLO = {
    "cpp": "#include <iostream>\nint main() { int n; std::cin >> n; std::cout << n * 2; }",
    "nodejs": "const n = Number(require('fs').readFileSync(0)); console.log(n * 2)",
    "java": "public class Main { public static void main(String[] a) {"
    " System.out.println(new java.util.Scanner(System.in).nextInt() * 2); } }",
    "go": 'package main\nimport "fmt"\nfunc main() { var n int; fmt.Scan(&n); fmt.Println(n * 2) }',
    "rust": "use std::io;\nfn main() { let mut s = String::new(); io::stdin().read_line(&mut s).unwrap();"
    ' println!("{}", s.trim().parse::<i32>().unwrap() * 2); }',
    "bash": "read n; echo $((n * 2))",
}
BROKEN = {
    "cpp": "int main() { return x; }",
    "java": "class Main { x }",
    "go": "package main\nx",
    "rust": "fn main() { x }",
}


def skip_without(url: str, language: str) -> None:
    """The node says itself what it lacks."""
    answer = httpx.post(f"{url}/run_code", json={"code": "", "language": language}, timeout=60).json()
    if "is not on this node" in answer["message"]:
        pytest.skip(answer["message"])


@pytest.mark.parametrize("language", HELLO)
def test_other_languages(url: str, language: str) -> None:
    skip_without(url, language)
    answer = run(HELLO[language], language, stdin="21\n", run_timeout=20, compile_timeout=20)
    assert (answer.status, answer.run_result.stdout.strip()) == ("Success", "42")
    assert (answer.compile_result is not None) == (language in BROKEN)
    if language in BROKEN:
        assert (answer.compile_result.status, answer.compile_result.return_code) == ("Finished", 0)
        broken = run(BROKEN[language], language)
        assert (broken.status, broken.run_result, broken.compile_result.return_code) == ("Failed", None, 1)
        assert broken.compile_result.stderr
        mapping = sandbox_fusion.SummaryMapping(CompileFailed="no program")
        assert sandbox_fusion.summary_run_code_result(broken, mapping) == "no program"


def test_code_contests_in_cpp(url: str) -> None:
    code = "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b << std::endl; }"
    skip_without(url, "cpp")
    right = submit(CODE_CONTESTS, f"```cpp\n{code}\n```", "code_contests", language="cpp")
    assert (right.accepted, len(right.tests)) == (True, 5)
    wrong = submit(CODE_CONTESTS, f"```cpp\n{code.replace('+', '-')}\n```", "code_contests", language="cpp")
    assert (wrong.accepted, len(wrong.tests)) == (False, 1)


def test_a_language_that_no_node_has_is_the_sandboxs_error(url: str) -> None:
    answer = httpx.post(f"{url}/run_code", json={"code": "1", "language": "racket"}).json()
    assert answer["status"] == "SandboxError"
    assert "'racket' is not on this node" in answer["message"]


def test_files_go_in_and_come_out() -> None:
    code = "text = open('data/in.txt').read()\nopen('out.bin', 'wb').write(text.encode() + b'\\xff')"
    files = {"data/in.txt": base64.b64encode(b"hello").decode(), "left_out": None}
    answer = run(code, files=files, fetch_files=["out.bin", "never_made"])
    assert answer.status == "Success"
    assert {name: base64.b64decode(content) for name, content in answer.files.items()} == {"out.bin": b"hello\xff"}
    with pytest.raises(Exception, match=r"422.*relative path"):
        run("1", files={"../up": ""})


def test_a_program_that_starts_processes(url: str) -> None:
    code = "import subprocess\nprint(subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout)"
    answer = run(code)
    assert (answer.status, answer.run_result.stdout) == ("Success", "hi\n\n")


# pytest


def test_pytest_needs_a_runtime_that_has_it(url: str) -> None:
    answer = httpx.post(f"{url}/run_code", json={"code": "1", "language": "pytest"}).json()
    assert answer["status"] == "SandboxError"
    assert "RATCHET_SANDBOX_RUNTIMES_DIR" in answer["message"]


def test_pytest(tmp_path: Path, fusion_service: Callable[..., AbstractContextManager[str]]) -> None:
    packages = Path(pytest.__file__).parents[1]
    runtime = tmp_path / "mine"
    (runtime / "bin").mkdir(parents=True)
    (runtime / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    mine = runtime / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        shutil.copytree(packages / name, mine / name)
    shutil.copy(packages / "py.py", mine)
    test = "def test(tmp_path, capfd):\n    print(f(1))\n    assert capfd.readouterr().out == '2\\n'\n"
    code = f"def f(x):\n    return x + 1\n\n{test}"
    with fusion_service(RATCHET_SANDBOX_RUNTIMES_DIR=str(tmp_path)) as url:
        sandbox_fusion.set_endpoint(url)
        right, wrong = run(code, "pytest"), run(code.replace("x + 1", "x + 2"), "pytest")
    assert (right.status, right.run_result.return_code) == ("Success", 0)
    assert "1 passed" in right.run_result.stdout
    assert (wrong.status, wrong.run_result.return_code) == ("Failed", 1)
    assert "1 failed" in wrong.run_result.stdout
