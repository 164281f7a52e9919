"""Does `ratchet data audit` find weak tests? AUC of its weakness, for tests that were weakened by plan.

    RATCHET_SERVICE_TOKEN=$(cat ~/.ratchet/service.token) python -m tests.bench.audited_tests FILE TARGET [PROBLEMS]

FILE: MBPP's rows (../shared/data/mbpp/mbpp.jsonl). TARGET: a sandbox. Half of the problems are weakened in one way,
the others keep their three assertions.
"""

import asyncio
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ratchet_environments.audit import audit_all
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_environments.task import Task
from ratchet_kit import client
from ratchet_problems import CheckTest, Problem, mapping

KINDS: dict[str, Callable[[str], str]] = {
    "any value passes": lambda call: f"assert {call} is not None",
    "any value of its type passes": lambda call: f"assert type({call}).__name__",
    "any error passes": lambda call: f"try:\n    assert {call}\nexcept Exception:\n    pass",
}
"""An assertion in place of `assert call == value`."""
FIRST = "the first assertion alone"


def weakened(problem: Problem, kind: str) -> Problem:
    (test,) = problem.tests
    assert isinstance(test, CheckTest)
    lines: list[str] = []
    if kind == FIRST:
        return replace(problem, tests=(CheckTest("\n".join(_until_first(test.code.splitlines()))),))
    for line in test.code.splitlines():
        call, equals, _ = line.removeprefix("assert ").partition("==")
        lines.append(KINDS[kind](call.strip()) if line.startswith("assert ") and equals else line)
    return replace(problem, tests=(CheckTest("\n".join(lines)),))


def _until_first(lines: Sequence[str]) -> Sequence[str]:
    first = next(place for place, line in enumerate(lines) if line.startswith("assert "))
    return lines[: first + 1]


def auc(weak: Sequence[float], strong: Sequence[float]) -> float:
    """The chance that a weak one is ranked above a strong one (Mann and Whitney 1947); ties count half."""
    return sum((w > s) + (w == s) / 2 for w in weak for s in strong) / (len(weak) * len(strong))


async def measure(file: Path, target: str, size: int) -> None:
    columns = mapping.columns((name for _, row in mapping.rows(file) for name in row), {})
    every = [one for one in mapping.problems(file, columns) if one.references]
    chosen = random.Random(1).sample(every, size)
    kinds = [*KINDS, FIRST]
    planted = [(problem, kinds[place // 2 % 4] if place % 2 else "") for place, problem in enumerate(chosen)]
    async with client.channel(target) as channel, Executor(GrpcSandbox(channel)) as executor:
        tasks = [Task.of(weakened(problem, kind) if kind else problem) for problem, kind in planted]
        found = await audit_all(CodeEnvironment(executor, forgeable=True), tasks)
    known = [(kind, one.weakness) for (_, kind), one in zip(planted, found, strict=True) if not one.fault]
    strong = [weakness for kind, weakness in known if not kind]
    print(f"{len(strong)} as they are, {len(known) - len(strong)} weakened, {size - len(known)} refused by the sandbox")
    for kind in kinds:
        weak = [weakness for one, weakness in known if one == kind]
        print(json.dumps({"kind": kind, "weak": len(weak), "auc": round(auc(weak, strong), 3) if weak else None}))
    gross = [weakness for kind, weakness in known if kind in KINDS]
    print(json.dumps({"kind": "all but the last", "weak": len(gross), "auc": round(auc(gross, strong), 3)}))


if __name__ == "__main__":
    asyncio.run(measure(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 200))
