"""The honest programs in plain interpreters and with plain compilers: no sandbox. What passes here must pass there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.sandbox.v1 import program_pb2 as pb
from sandbox_service import honest

pytestmark = pytest.mark.integration

# Calls the entry point and compares as Python does, floats within a millionth.
CALLS = """
import math, sys
sys.path.insert(0, "")
import program
owner, _, method = ENTRY.rpartition(".")
def same(got, expected):
    got = got.tolist() if hasattr(got, "tolist") else got
    if isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple)):
        return len(got) == len(expected) and all(map(same, got, expected))
    if isinstance(expected, float):
        return got == expected or math.isclose(got, expected, rel_tol=1e-6) or (got != got and expected != expected)
    return got == expected
inf, nan = math.inf, math.nan
for args, expected, raises, unordered in TESTS:
    entry = getattr(getattr(program, owner)(), method) if owner else getattr(program, method)
    try:
        got = entry(*eval(args))
    except BaseException as error:
        assert raises in [kind.__name__ for kind in type(error).__mro__], repr(error)
        continue
    assert not raises, "raised nothing"
    expected = eval(expected)
    assert same(*((sorted(got), sorted(expected)) if unordered else (got, expected))), (got, expected)
"""
# The test code where its own runner would have it: beside the program, then as a script and under pytest.
CHECK = """
import sys
sys.path.insert(0, "")
import program
for name in ("solution", "program"):
    sys.modules[name] = program
globals().update({k: v for k, v in vars(program).items() if not k.startswith("__")})
owner, _, method = ENTRY.rpartition(".")
candidate = getattr(getattr(program, owner)(), method) if owner else getattr(program, method)
"""
COMPILERS = {
    "c": "gcc -O2 -std=c17 -o main main.c -lm -lpthread && ./main",
    "cpp": "g++ -O0 -std=c++17 -o main main.cpp -lpthread && ./main",
    "java": "javac Main.java && java Main",
    "javascript": "node main.js",
    "bash": "bash main.sh",
    "go": "go run main.go",
    "rust": "rustc --edition 2021 -O -o main main.rs && ./main",
}
SUFFIX = {"c": "c", "cpp": "cpp", "java": "java", "javascript": "js", "bash": "sh", "go": "go", "rust": "rs"}
_STACK = 480 << 20  # bytes


def _python(case: pb.Program) -> str:
    if not case.runtime:
        return sys.executable
    python = Path(sys.prefix).parent / f"sandbox-{case.runtime}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no runtime {case.runtime} here: make runtimes")
    return str(python)


def _run(command: list[str], folder: Path, stdin: str = "") -> str:
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # as in the sandbox: the stack may take nearly all of the memory; a run in a shell's background ignores SIGINT
    command = ["env", "--default-signal=INT", "prlimit", f"--stack={_STACK}:", *command]
    done = subprocess.run(command, cwd=folder, input=stdin.encode(), env=environment, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    return done.stdout.decode()


@pytest.mark.parametrize("case", honest.cases(), ids=lambda case: case.id)
def test_it_passes_without_a_sandbox(case: pb.Program, tmp_path: Path) -> None:
    for file in case.files:
        (tmp_path / file.name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.name).write_bytes(file.content)
    kind = case.tests[0].WhichOneof("kind")
    if case.language:
        _other_language(case, tmp_path)
        return
    (tmp_path / "program.py").write_bytes(case.source.encode("utf-8", "surrogatepass"))
    if kind == "stdio":
        test = case.tests[0].stdio
        printed = _run([_python(case), "program.py"], tmp_path, test.stdin)
        assert printed.split() == test.expected_stdout.split()
    elif kind == "call":
        tests = [(test.call.args, test.call.expected, test.call.raises, test.call.unordered) for test in case.tests]
        head = f"ENTRY, TESTS = {case.entry_point!r}, {tests!r}\n"
        (tmp_path / "calls.py").write_text(head + CALLS, "utf-8", "surrogatepass")
        _run([_python(case), "calls.py"], tmp_path)
    else:
        _check(case, tmp_path)


def _check(case: pb.Program, folder: Path) -> None:
    code = case.tests[0].check.code
    if "def check(" in code and "\ncheck(" not in code and "    check(" not in code:
        code += "\ncheck(candidate)\n"
    head = f"ENTRY = {case.entry_point!r}\n{CHECK}"
    (folder / "test_it.py").write_text(head + code)
    _run([_python(case), "test_it.py"], folder)
    if "def test" in code and "__main__" not in code:
        _run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"], folder)


def _other_language(case: pb.Program, folder: Path) -> None:
    command = COMPILERS[case.language]
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"no {command.split()[0]} on this machine")
    (folder / f"{'Main' if case.language == 'java' else 'main'}.{SUFFIX[case.language]}").write_text(case.source)
    test = case.tests[0].stdio
    assert _run(["bash", "-c", command], folder, test.stdin).split() == test.expected_stdout.split()
