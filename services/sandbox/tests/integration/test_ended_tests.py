"""Tests in other languages than Python: a pass takes that they came to their end, whatever the program does before."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet_problems import mapping
from ratchet_problems import problem as problem_tests
from ratchet_problems.extraction import program_of
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import CheckTest, Limits, Program
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=5), memory_bytes=2 << 30)

TESTS = {
    "c": "#include <assert.h>\nint main(void) { assert(add(1, 2) == 3); }\n",
    "cpp": "int main() {\n  assert(add(1, 2) == 3);\n  // }\n}\n",
    "java": "class Main {\n  public static void main(String[] args) { assert Problem.add(1, 2) == 3; }\n}\n",
    "javascript": 'const assert = require("node:assert");\nassert.deepEqual(add(1, 2), 3);\n',
    "go": 'import "testing"\n\nfunc TestAdd(t *testing.T) {\n\tif add(1, 2) != 3 {\n\t\tt.Errorf("no sum")\n\t}\n}\n',
    "rust": "#[cfg(test)]\nmod tests {\n  use super::*;\n  #[test]\n  fn sums() { assert_eq!(add(1, 2), 3); }\n}\n",
    "bash": 'set -e\nrun_test() {\n    [[ $(add 1 2) = "3" ]]\n}\nrun_test\n',
}
MAINS = {
    "go": 'func main() {\n\tif add(1, 2) != 3 {\n\t\tpanic("no sum")\n\t}\n}\n',
    "rust": "fn main() {\n    let candidate = add;\n    assert_eq!(candidate(1, 2), 3);\n}\n",
    "cpp": "int main(int count, char **words) {\n  if (add(1, 2) != 3) return 1;\n  return 0;\n}\n",
}
RIGHT = {
    "c": "int add(int a, int b) { return a + b; }",
    "cpp": "#include <cassert>\nint add(int a, int b) { return a + b; }",
    "java": "class Problem {\n  static int add(int a, int b) { return a + b; }\n}",
    "javascript": "const add = (a, b) => a + b",
    "go": "package main\n\nfunc add(a, b int) int { return a + b }",
    "rust": "fn add(a: i32, b: i32) -> i32 { a + b }",
    "bash": "add() { echo $(($1 + $2)); }",
}
WRONG = {name: source.replace("+", "-") for name, source in RIGHT.items()}

ATTACKS = {
    "c exits before main": (
        "c",
        "#include <unistd.h>\n__attribute__((constructor)) static void leave(void) { _exit(0); }\n" + WRONG["c"],
    ),
    "c exits when called": ("c", "#include <stdlib.h>\nint add(int a, int b) { exit(0); }"),
    "c defines assert anew": ("c", "#define assert(x)\n" + WRONG["c"]),
    "c turns asserts off": ("c", "#define NDEBUG\n#include <assert.h>\n" + WRONG["c"]),
    "c prints a mark": (
        "c",
        "#include <stdio.h>\n#include <stdlib.h>\nint add(int a, int b) {\n"
        '  fputs("\\n00112233445566778899aabbccddeeff\\n", stderr); exit(0);\n}',
    ),
    "c ends well on a failed assertion": (
        "c",
        "#include <signal.h>\n#include <unistd.h>\nstatic void leave(int n) { _exit(0); }\n"
        "int add(int a, int b) { signal(SIGABRT, leave); return 0; }",
    ),
    "cpp exits in a constructor": (
        "cpp",
        "#include <cassert>\n#include <cstdlib>\nstruct Leave { Leave() { std::_Exit(0); } } leave;\n"
        "int add(int a, int b) { return 0; }",
    ),
    "cpp exits in a destructor": (
        "cpp",
        "#include <cassert>\n#include <cstdlib>\nstruct Leave { ~Leave() { std::_Exit(0); } };\n"
        "int add(int a, int b) { Leave leave; return 0; }",
    ),
    "java exits on load": (
        "java",
        "class Problem {\n  static { System.exit(0); }\n  static int add(int a, int b) { return 0; }\n}",
    ),
    "java halts": (
        "java",
        "class Problem {\n  static int add(int a, int b) { Runtime.getRuntime().halt(0); return 0; }\n}",
    ),
    "java handles what is uncaught": (
        "java",
        "class Problem {\n  static int add(int a, int b) {\n"
        "    Thread.setDefaultUncaughtExceptionHandler((t, e) -> System.exit(0));\n    return 0;\n  }\n}",
    ),
    "javascript exits": ("javascript", "process.exit(0)"),
    "javascript handles what is uncaught": (
        "javascript",
        'process.on("uncaughtException", () => process.exit(0))\nconst add = (a, b) => 0',
    ),
    "javascript gives exits another status": (
        "javascript",
        'process.on("exit", () => { process.exitCode = 0 })\nconst add = (a, b) => 0',
    ),
    "javascript makes assertions say nothing": (
        "javascript",
        'require("assert").deepEqual = () => {}\nconst add = (a, b) => 0',
    ),
    "go exits in init": (
        "go",
        'package main\n\nimport "os"\n\nfunc init() { os.Exit(0) }\n\nfunc add(a, b int) int { return 0 }',
    ),
    "go exits when called": (
        "go",
        'package main\n\nimport "os"\n\nfunc add(a, b int) int {\n\tos.Exit(0)\n\treturn 0\n}',
    ),
    "go takes over the runner": (
        "go",
        'package main\n\nimport (\n\t"os"\n\t"testing"\n)\n\nfunc TestMain(m *testing.M) { os.Exit(0) }\n\n'
        "func add(a, b int) int { return 0 }",
    ),
    "go ends the goroutine": (
        "go",
        'package main\n\nimport "runtime"\n\nfunc add(a, b int) int {\n\truntime.Goexit()\n\treturn 0\n}',
    ),
    "rust exits before main": (
        "rust",
        '#[used]\n#[link_section = ".init_array"]\nstatic LEAVE: extern "C" fn() = leave;\n'
        'extern "C" fn leave() { std::process::exit(0) }\nfn add(a: i32, b: i32) -> i32 { 0 }',
    ),
    "rust exits on a panic": (
        "rust",
        "fn add(a: i32, b: i32) -> i32 {\n    std::panic::set_hook(Box::new(|_| std::process::exit(0)));\n    0\n}",
    ),
    "rust defines assertions anew": (
        "rust",
        "#[macro_export]\nmacro_rules! assert_eq { ($($all:tt)*) => {} }\nfn add(a: i32, b: i32) -> i32 { 0 }",
    ),
    "bash exits": ("bash", "exit 0"),
    "bash exits well in the end": ("bash", "trap 'exit 0' EXIT\nadd() { echo 0; }"),
    "bash tests nothing": ("bash", "printf() { :; }\nadd() { kill -9 $$; }"),
}


async def _graded(sandbox: Sandbox, executor: LanePool, language: str, source: str, test: str) -> Execution:
    if not executor.capabilities.processes or language in executor.capabilities.missing_languages:
        pytest.skip(f"there is no {language} here")
    tests = (CheckTest(test, shared=True),)
    return await sandbox.execute(Program("p", source, tests=tests, limits=LIMITS, language=language))


@pytest.mark.parametrize("language", TESTS)
async def test_right_passes_and_wrong_does_not(sandbox: Sandbox, executor: LanePool, language: str) -> None:
    for test in (TESTS[language], MAINS.get(language, TESTS[language])):
        right = await _graded(sandbox, executor, language, RIGHT[language], test)
        assert (right.verdict, right.forgeable, right.stderr.strip()) == (Verdict.PASSED, True, ""), right
        wrong = await _graded(sandbox, executor, language, WRONG[language], test)
        assert wrong.verdict is Verdict.FAILED, wrong


@pytest.mark.parametrize("name", ATTACKS)
async def test_no_attack_passes(sandbox: Sandbox, executor: LanePool, name: str) -> None:
    language, source = ATTACKS[name]
    for test in {TESTS[language], MAINS.get(language, TESTS[language])}:
        if "TestMain" in source and "testing" not in test:
            continue  # which does not compile
        execution = await _graded(sandbox, executor, language, source, test)
        assert execution.verdict in (Verdict.FAILED, Verdict.RUNTIME_ERROR), execution


async def test_each_test_function_is_told(sandbox: Sandbox, executor: LanePool) -> None:
    test = TESTS["rust"].replace("  #[test]", "  #[test]\n  fn zero() { assert_eq!(add(0, 0), 0); }\n  #[test]", 1)
    execution = await _graded(sandbox, executor, "rust", WRONG["rust"], test)
    assert execution.results[0].error.startswith("1 of 2 tests passed, and not sums;"), execution
    test = TESTS["go"] + "\nfunc TestZero(t *testing.T) {\n\tif add(0, 0) != 0 {\n\t\tt.Fatal()\n\t}\n}\n"
    execution = await _graded(sandbox, executor, "go", WRONG["go"], test)
    assert execution.results[0].error.startswith("1 of 2 tests passed, and not TestAdd;"), execution


MULTIPL_E = {
    "go": (
        'package twice_test\n\nimport (\n    "testing"\n    "fmt"\n)\n\nfunc twice(x int) int {\n',
        'func TestTwice(t *testing.T) {\n  if fmt.Sprint(twice(2)) != "4" {\n    t.Errorf("no")\n  }\n}\n',
        "    return x + x\n}\n",
    ),
    "java": (
        "import java.util.*;\nimport org.javatuples.*;\nclass Problem {\n    public static long twice(long x) {\n",
        "    }\n    public static void main(String[] args) {\n    assert(twice((2l)) == (4l));\n    }\n\n}\n",
        "        return x + x;\n    }\n}\n",
    ),
    "rs": (
        "fn twice(x: isize) -> isize {\n",
        "}\n\nfn main() {\n    let candidate = twice;\n    assert_eq!(candidate(2), 4);\n}\n",
        "    x + x\n}\n",
    ),
    "cpp": (
        "#include<assert.h>\n#include<bits/stdc++.h>\nlong twice(long x) {\n",
        "}\nint main() {\n    auto candidate = twice;\n    assert(candidate((2)) == (4));\n}\n",
        "    return x + x;\n}\n",
    ),
    "js": (
        "function twice(x){\n",
        "const assert = require('node:assert');\n\nfunction test() {\n  assert.deepEqual(twice(2),4);\n}\n\ntest();",
        "    return x + x\n}\n",
    ),
    "sh": (
        "#!/bin/bash\n# $1 is an integer\ntwice() {\n",
        '}\n\nset -e\nrun_test() {\n    [[ $(twice "2") = "4" ]]\n}\n\nrun_test\n',
        "    echo $(($1 + $1))\n}\n",
    ),
}


@pytest.mark.parametrize("name", MULTIPL_E)
async def test_rows_of_multipl_e(sandbox: Sandbox, executor: LanePool, name: str, tmp_path: Path) -> None:
    """Rows of our own in its form, read as `ratchet data add` reads them, and answered in two ways."""
    prompt, tests, body = MULTIPL_E[name]
    row = {"name": "twice", "language": "go_test.go" if name == "go" else name, "prompt": prompt, "tests": tests}
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row) + "\n")
    (problem,) = mapping.problems(file, mapping.columns(row, {}))
    (test,) = problem.tests
    assert isinstance(test, problem_tests.CheckTest)
    whole = f"```{problem.language}\n{problem.prompt}{body}```\n"
    for answer, verdict in ((body, Verdict.PASSED), (whole, Verdict.PASSED), (body.replace("+", "-"), Verdict.FAILED)):
        program = program_of(problem, answer)
        execution = await _graded(sandbox, executor, problem.language, program, test.code)
        assert execution.verdict is verdict, (program, execution)
