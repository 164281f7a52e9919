"""How a program is written, by ruff."""

import json
import subprocess
from collections import Counter
from functools import cache

from ruff.__main__ import find_ruff_bin

from ratchet_problems import Problem
from ratchet_quality.score import Score, Unreadable
from ratchet_quality.tokens import significant

RULES = "E,W,F,N,B,C4,SIM"
"""pycodestyle, Pyflakes, names (PEP 8), bugbear, comprehensions, simplify."""
NOT_COUNTED = "W292,B905"
"""No newline at the end: whether an answer has one depends on how it was cut out. zip without strict= is usual."""
TIMEOUT_S = 10.0


def style(source: str, problem: Problem) -> Score:
    """1 minus ruff's findings per line of code, at least 0: pylint's score with all kinds of message counted once.

    Lines that the problem's prompt gives are the problem's, with what is found in them. Comments, docstrings and empty
    lines are no lines; `# noqa` changes nothing. Raises Unreadable.
    """
    given = {line.strip() for line in problem.prompt.split("\n")}
    own = {number for number, line in enumerate(source.split("\n"), 1) if line.strip() not in given}
    lines = len({token.start[0] for token in significant(source)} & own)
    if not lines:
        raise Unreadable("no code")
    rules = Counter(rule for rule, number in _findings(source) if number in own)
    count = sum(rules.values())
    most = ", ".join(f"{rule} {number}x" for rule, number in rules.most_common(3))
    return Score(max(0.0, 1 - count / lines), f"{count} findings in {lines} lines{': ' if most else ''}{most}")


def _findings(source: str) -> list[tuple[str, int]]:
    """Rule and line of each. Settings of a project are not read, and nothing is kept."""
    command = [_ruff(), "check", "--isolated", "--no-cache", "--quiet", "--ignore-noqa", "--exit-zero"]
    command += ["--target-version", "py311", "--select", RULES, "--ignore", NOT_COUNTED]
    command += ["--output-format", "json", "--stdin-filename", "program.py", "-"]
    try:
        done = subprocess.run(command, input=source.encode(), capture_output=True, timeout=TIMEOUT_S, check=True)
    except subprocess.TimeoutExpired as error:
        raise Unreadable(f"ruff took more than {TIMEOUT_S:.0f} s") from error
    except subprocess.CalledProcessError as error:
        raise Unreadable("ruff can't read it") from error
    found = [(one["code"], one["location"]["row"]) for one in json.loads(done.stdout)]
    if any(not rule or rule == "invalid-syntax" for rule, _ in found):
        raise Unreadable("no Python: ruff can't read it")
    return found


@cache
def _ruff() -> str:
    return str(find_ruff_bin())
