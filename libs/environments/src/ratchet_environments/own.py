"""A reward of one's own: a program that reads samples as JSON on its stdin and prints their scores. Run in the sandbox.
Or a plug-in, a function that is given the samples and gives the scores.

    {"samples": [{"answer": ..., "source": ..., "passed": true, ...}, ...]}     in: the completions of one prompt
    [0.5, 1.0]                                                                  out: a number for each, in order

The form of a sample is in docs/rewards.md. The policy's answers are data to it; what it makes of them is its affair.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.executor import Executor
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import Problem
from ratchet_problems.messages import records
from ratchet_rewards import Component, Grade

LARGEST = 1e300
"""Scores from there on are no numbers."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion, as such a program is given it."""

    answer: str
    """The policy's text."""
    source: str
    """The program that it means."""
    grade: Grade


async def scores(executor: Executor, component: Component, problem: Problem, samples: Sequence[Sample]) -> list[float]:
    """One for each sample; NaN for what it does not judge.

    Raises InvalidArgument, with what it wrote to stderr last, for a program that fails or prints something else;
    Unavailable when the platform failed.
    """
    stdin = json.dumps({"samples": [_to_json(problem, sample) for sample in samples]})
    program = pb.Program(id=f"{problem.id}: {component.name}", source=component.program, stdin=stdin)
    execution = await executor.execute(program)
    if execution.verdict != verdict_pb2.VERDICT_PASSED:
        verdict = verdict_pb2.Verdict.Name(execution.verdict).removeprefix("VERDICT_")
        last = (execution.stderr.strip().splitlines() or [execution.detail])[-1]
        raise InvalidArgument(f"the reward {component.name} ended in {verdict}: {last[:300]}")
    return read(component.name, execution.stdout, len(samples))


def installed_scores(
    function: Callable[[list[dict[str, Any]]], object], name: str, problem: Problem, samples: Sequence[Sample]
) -> list[float]:
    """The scores of a plug-in. Raises as `scores`, and what the function raises."""
    found = function([_to_json(problem, sample) for sample in samples])
    return _numbers(found, len(samples), f"the reward {name} must give")


def read(name: str, printed: str, count: int) -> list[float]:
    """The scores, NaN where one is null or not finite. Raises InvalidArgument for no list of `count` numbers."""
    try:
        found = json.loads(printed)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"the reward {name} printed no JSON: {printed.strip()[:100]!r}") from error
    return _numbers(found, count, f"the reward {name} must print")


def _numbers(found: object, count: int, must: str) -> list[float]:
    if not isinstance(found, list) or len(found) != count or not all(one is None or _is_number(one) for one in found):
        raise InvalidArgument(f"{must} a list of {count} numbers, not {json.dumps(found)[:100]}")
    return [float(one) if one is not None and abs(one) < LARGEST else math.nan for one in found]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def problem_to_json(problem: Problem) -> dict[str, Any]:
    """As code of one's own is given it. No tests: what is held out stays so."""
    return {
        "id": problem.id,
        "prompt": problem.prompt,
        "conversation": records(problem.conversation),
        "entry_point": problem.entry_point,
        "references": list(problem.references),
        "answers": list(problem.answers),
        "language": problem.language,
        "difficulty": problem.difficulty,
        "tags": list(problem.tags),
    }


def _to_json(problem: Problem, sample: Sample) -> dict[str, Any]:
    grade = sample.grade
    return {
        "problem": problem_to_json(problem),
        "answer": sample.answer,
        "source": sample.source,
        "passed": grade.passed,
        "verdict": grade.verdict,
        "tests_passed": grade.tests_passed,
        "tests_total": grade.tests_total,
        "cpu_seconds": grade.cpu_time.total_seconds() if grade.cpu_time is not None else None,
    }
