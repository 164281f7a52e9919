"""HumanEval-X in Go and Rust: rows of our own in its form."""

import json
from pathlib import Path

import pytest

import ratchet_benchmarks
from ratchet_benchmarks import fetching
from ratchet_benchmarks.registry import BENCHMARKS
from ratchet_problems import CheckTest, Problem

GO = {
    "task_id": "Go/900",
    "prompt": 'import (\n    "math"\n)\n\n// Twice a number.\nfunc Twice(x int) int {\n',
    "canonical_solution": "    return 2 * x\n}\n\n",
    "test": "func TestTwice(t *testing.T) {\n    assert := assert.New(t)\n    assert.Equal(4, Twice(2))\n}\n",
}
RUST = {
    "task_id": "Rust/900",
    "prompt": "\n/*\n Twice a number.\n*/\n",
    "declaration": "\nuse rand::Rng;\nuse regex::Regex;\nuse std::any::Any;\n\nfn twice(x: i32) -> i32 {\n",
    "canonical_solution": "\n    2 * x\n}\n",
    "test": "\n#[cfg(test)]\nmod tests {\n use super::*;\n #[test]\n fn twice_two() { assert_eq!(twice(2), 4); }\n}\n",
}


def loaded(name: str, row: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Problem:
    monkeypatch.setenv("RATCHET_DATA", str(folder))
    file = folder / "rows.jsonl"
    file.write_text(json.dumps(row) + "\n")
    fetching.take(BENCHMARKS[name], file, unchecked=True)
    (problem,) = ratchet_benchmarks.load(name).problems
    return problem


def test_go_imports_what_it_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = loaded("humaneval-go", GO, tmp_path, monkeypatch)
    assert problem.language == "go"
    assert problem.references[0].startswith("package main\n")
    assert "math" not in problem.references[0]
    (test,) = problem.tests
    assert isinstance(test, CheckTest)
    assert test.code.startswith('import "testing"\nimport "reflect"\nfunc TestTwice')
    assert "testify" not in test.code
    read = ratchet_benchmarks.program
    body = "    return int(math.Abs(float64(2 * x)))\n}\n"
    assert 'import "math"\n' in read("humaneval-go", problem, body)
    fenced = '```go\npackage main\n\nimport "fmt"\n\nfunc Twice(x int) int { return 2 * x }\n```'
    assert "import" not in read("humaneval-go", problem, fenced)


def test_rust_has_no_crates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = loaded("humaneval-rust", RUST, tmp_path, monkeypatch)
    assert "rand" not in problem.prompt
    assert "regex" not in problem.prompt
    assert "use std::any::Any;" in problem.references[0]
    assert ratchet_benchmarks.program("humaneval-rust", problem, RUST["canonical_solution"]).strip() == (
        problem.references[0].strip()
    )
