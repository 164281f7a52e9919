"""Task folders of function problems: python examples/coding_tasks.py FOLDER [SET] [TRAIN] [VALIDATION]

Writes FOLDER/train and FOLDER/validation, of the first problems of SET (composed/train) and those after them. A task is
solved by a module `solution` of two lines at most (a function that returns an expression) that passes the problem's
tests; the number of lines is nowhere said. Its first test is an example that the agent can run.
"""

import json
import sys
from pathlib import Path

from ratchet_problems import Problem, load

TASK = """\
schema_version = "1.3"
artifacts = ["/app/solution.py"]

[task]
name = "{name}"

[metadata.ratchet]
judge = "program"

[agent]
timeout_sec = 60.0

[verifier]
timeout_sec = 60.0
"""
EXAMPLE = """\
import solution

got = solution.{function}(*{arguments})
print("ok" if got == {expected} else f"gave {{got!r}}")
"""
CALLS = """\
import ast, json, sys
import solution
function, every = json.load(sys.stdin)
for arguments in every:
    try:
        print(repr(getattr(solution, function)(*ast.literal_eval(arguments))))
    except Exception as error:
        print(type(error).__name__)
"""
JUDGE = """\
import ast, json, subprocess

function, tests, calls = json.load(open("/tests/tests.json"))
asked = json.dumps([function, [arguments for arguments, _ in tests]])
done = subprocess.run(["subject", "run", "python", "-c", calls], input=asked, capture_output=True, text=True)
got = done.stdout.splitlines()


def equal(text, expected):
    try:
        return ast.literal_eval(text) == ast.literal_eval(expected)
    except (ValueError, SyntaxError):
        return False


passed = sum(map(equal, got, [expected for _, expected in tests])) if len(got) == len(tests) else 0
subprocess.run(["subject", "get", "/app/solution.py", "/tmp/got"], check=True)
is_short = len(open("/tmp/got/solution.py").read().strip().splitlines()) <= 2
open("/logs/verifier/reward.txt", "w").write(str(passed / len(tests) if is_short else 0.0))
"""


def write(problem: Problem, folder: Path, name: str) -> None:
    function, tests = problem.entry_point, [(test.args, test.expected) for test in problem.tests]
    arguments, expected = tests[0]
    shortest = min(problem.references, key=lambda one: len(one.splitlines()))
    files = {
        "task.toml": TASK.format(name=name),
        "instruction.md": problem.prompt,
        "environment/Dockerfile": "FROM python:3.11\nWORKDIR /app\nCOPY example.py example.py\n",
        "environment/example.py": EXAMPLE.format(function=function, arguments=arguments, expected=expected),
        "tests/tests.json": json.dumps([function, tests, CALLS]),
        "tests/judge.py": JUDGE,
        "tests/test.sh": "python /tests/judge.py\n",
        "solution/solve.sh": f"cat > solution.py <<'END'\n{shortest}\nEND\n",
    }
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def main(out: str, name: str = "composed/train", train: str = "200", validation: str = "100") -> None:
    short = [problem for problem in load(name) if any(len(one.splitlines()) <= 2 for one in problem.references)]
    for place, problem in enumerate(short[: int(train) + int(validation)]):
        split = "train" if place < int(train) else "validation"
        write(problem, Path(out) / split / f"{place:05}", f"coding/{place:05}")


if __name__ == "__main__":
    main(*sys.argv[1:])
