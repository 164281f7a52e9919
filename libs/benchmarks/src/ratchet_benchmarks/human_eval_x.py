"""HumanEval-X (Zheng et al. 2023, arXiv:2303.17568): HumanEval's functions in other languages, with tests in them.

The sandbox lacks testify and Rust's crates. All that Go's tests use of testify is `Equal`, which is written here; lines
that name crates are left out, so that a reference or a test that needs one does not pass.
"""

import re
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from ratchet_benchmarks.benchmark import Benchmark, Contents, Edition, Row, Truth
from ratchet_environments.task import Limits
from ratchet_problems import CheckTest, Problem
from ratchet_problems.extraction import program_of
from ratchet_problems.prompting import END_OF_TEXT, Prompting, at

_HOME = "https://raw.githubusercontent.com/THUDM/CodeGeeX/main/codegeex/benchmark/humaneval-x"
_NAMES = {"cpp": "C++", "java": "Java", "javascript": "JavaScript", "go": "Go", "rust": "Rust"}
_ASSERT = 'console.assert = require("node:assert").ok;\n'
"""Node's console.assert prints, and goes on: who wrote the tests counts what is printed as failed."""
_GO_ASSERTIONS = """
type assertions struct{ t *testing.T }

func (one assertions) Equal(expected, actual interface{}, words ...interface{}) {
	one.t.Helper()
	if !reflect.DeepEqual(expected, actual) {
		one.t.Errorf("not equal: expected %v, actual %v", expected, actual)
	}
}
"""
_GO_PACKAGES = (
    "bufio", "bytes", "container/heap", "container/list", "crypto/md5", "errors", "fmt", "math", "math/big",
    "math/rand", "os", "regexp", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8",
)  # fmt: skip
"""Packages that an answer may use without an import, as in HumanEval-X' own evaluator (IMPORT_HELPER)."""
_GO_IMPORTS = re.compile(r"^import[ \t]*(?:\([^()]*\)|[^\n(]+)\n?", re.MULTILINE)
_CRATES = re.compile(r"^use (?:rand|regex|md5)\b.*\n", re.MULTILINE)


def _read(language: str, rows: Sequence[Row], part: str, truth: Truth) -> Contents:
    return Contents(
        tuple(_problem(language, row) for row in rows),
        Prompting(
            message=partial(_message, language),
            stop=at(*END_OF_TEXT),
            join=_go_program if language == "go" else program_of,
        ),
        Limits(timedelta(seconds=5), 2 << 30),
    )


def _message(language: str, problem: Problem) -> str:
    return (
        f"Please provide a self-contained {_NAMES[language]} program that solves the following problem in a markdown "
        f"code block. Leave out the main function:\n```{language}\n{problem.prompt.strip()}\n```"
    )


def _problem(language: str, row: Row) -> Problem:
    prompt, test = row["prompt"], row["test"]
    if language == "javascript":
        test = _ASSERT + test
    elif language == "go":
        test = test.replace("assert := assert.New(t)", "assert := assertions{t}") + _GO_ASSERTIONS
        test = _with_imports(test, ("testing", "reflect", *_GO_PACKAGES))
    elif language == "rust":
        prompt += _CRATES.sub("", row["declaration"])
    reference = prompt + row["canonical_solution"]
    return Problem(
        id=row["task_id"],
        prompt=prompt,
        tests=(CheckTest(test, shared=True),),
        references=(_imported(reference) if language == "go" else reference,),
        source="humaneval-x",
        licence="Apache-2.0",
        language=language,
    )


def _go_program(problem: Problem, completion: str) -> str:
    return _imported(program_of(problem, completion))


def _imported(program: str) -> str:
    """With the imports that it uses and no others, as HumanEval-X' own evaluator does it."""
    head = "" if re.search(r"^package\s", program, re.MULTILINE) else "package main\n"
    body = _GO_IMPORTS.sub("", program)
    if head:
        return head + _with_imports(body, _GO_PACKAGES)
    package = re.search(r"^package[^\n]*\n?", body, re.MULTILINE)
    assert package
    rest = body[: package.start()] + body[package.end() :]
    return f"{package.group().strip()}\n{_with_imports(rest, _GO_PACKAGES)}"


def _with_imports(code: str, packages: Sequence[str]) -> str:
    used = [one for one in packages if re.search(rf"\b{one.rpartition('/')[2]}\.[A-Z]", code)]
    return "".join(f'import "{one}"\n' for one in used) + code


def _benchmark(language: str, short: str, digest: str, *others: str) -> Benchmark:
    return Benchmark(
        name=f"humaneval-{short}",
        about=f"HumanEval-X: 164 functions in {_NAMES[language]}",
        licence="Apache-2.0",
        editions=(Edition("2022-09", digest, (f"{_HOME}/{short}/data/humaneval_{short}.jsonl.gz",)),),
        fields=("task_id", "prompt", "canonical_solution", "test", *others),
        read=partial(_read, language),
    )


HUMAN_EVAL_X = (
    _benchmark("cpp", "cpp", "85fd6364521f272b16b98b82aa0b6a21c008d0a4eee7a4c25a7409fc08d2b728"),
    _benchmark("java", "java", "49070648554e6917ec2c8f700258fea7af8c94642918a6fc49c0e804a82e4860"),
    _benchmark("javascript", "js", "8256a540862cec11ac34dcde5a1536756709c3e7b2ddd421030cbc536a7e5f5f"),
    _benchmark("go", "go", "68c6b62db32d5e6ea46d0bde3a0f574daed86e944af91669b0c1fd3ce23a6ac4"),
    _benchmark("rust", "rust", "6e03217f411268389cd162d7292e4450e120f78c227ed2fe7a6193d8cafd4dfd", "declaration"),
)
