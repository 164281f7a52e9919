"""The answers of EvalPlus' references: computed once, in the sandbox, and kept beside the data."""

import asyncio
import json
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_benchmarks.benchmark import Row
from ratchet_benchmarks.evalplus import inputs, recording, tests_of
from ratchet_environments.executor import Executor
from ratchet_environments.task import MOST_CPU_TIME
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.times import duration_to_proto

_AT_A_TIME = 4
_ANSWERS = "answers.json"
_MEMORY = 4 << 30
_PROGRAM = """{reference}

def _record(function):
{judge}
    import json, sys, time
    from math import inf, nan
    sys.set_int_max_str_digits(0)
{record}
    answers = {{}}
    for kind, inputs in (("base", {base}), ("plus", {plus})):
        found, slow, left_out, spent = [], {{}}, [], 0.0
        for place, arguments in enumerate(inputs):
            started = time.process_time()
            answer = function(*arguments)
            took = time.process_time() - started
            spent += took
            if not fits(answer):
                left_out.append(place)
                continue
            if took > 0.25:
                slow[len(found)] = round(took, 3)
            found.append(marked(answer, digest, floats, {tolerance!r}, {only_something!r}))
        answers[kind] = expression(found)
        answers[kind + "_seconds"], answers[kind + "_slow"] = round(spent, 3), slow
        answers[kind + "_left_out"] = left_out
    with open({file!r}, "w") as file:
        json.dump(answers, file)

_record({entry_point})
"""


async def compute(
    executor: Executor, rows: Sequence[Row], progress: Callable[[int], None] = lambda done: None
) -> dict[str, dict[str, Any]]:
    """By task id: what is expected of "base" and "plus" as Python, the CPU time of each ("base_seconds"), and that of
    the inputs that take a while, by their place ("base_slow"). "base_left_out" are the places of inputs whose answers
    are too large for tests that are apart from the program; the others are counted without them. `progress` is given
    the number of tasks done.

    Raises InvalidArgument where a reference ends in an error, Unavailable when the platform failed again and again.
    """
    room, done = asyncio.Semaphore(_AT_A_TIME), 0

    async def one(row: Row) -> dict[str, Any]:
        nonlocal done
        async with room:
            found = _answers(row, await executor.execute(_program(row)))
        done += 1
        progress(done)
        return found

    found = await asyncio.gather(*map(one, rows))
    return {row["task_id"]: answers for row, answers in zip(rows, found, strict=True)}


def _answers(row: Row, execution: pb.Execution) -> dict[str, Any]:
    files = {file.name: file.content for file in execution.files}
    if execution.verdict != verdict_pb2.VERDICT_PASSED or _ANSWERS not in files:
        ended = verdict_pb2.Verdict.Name(execution.verdict).removeprefix("VERDICT_")
        raise InvalidArgument(f"the reference of {row['task_id']} gave no answers: {ended} {execution.detail}".strip())
    return dict(json.loads(files[_ANSWERS]))


def _program(row: Row) -> pb.Program:
    def literal(kind: str) -> str:
        return recording.expression(inputs.read(row["task_id"], row[f"{kind}_input"]))

    source = _PROGRAM.format(
        reference=row["prompt"] + row["canonical_solution"],
        judge=_indented("judge.py"),
        record=_indented("recording.py"),
        base=literal("base"),
        plus=literal("plus"),
        tolerance=row["atol"],
        only_something=row["entry_point"] in tests_of.ONLY_SOMETHING,
        file=_ANSWERS,
        entry_point=row["entry_point"],
    )
    limits = problem_pb2.Limits(memory_bytes=_MEMORY)
    limits.cpu_time.CopyFrom(duration_to_proto(MOST_CPU_TIME))
    return pb.Program(id=row["task_id"], source=source, limits=limits, fetch_files=[_ANSWERS])


def _indented(file: str) -> str:
    """Inside a function, so that the reference does not find its names."""
    text = resources.files("ratchet_benchmarks.evalplus").joinpath(file).read_text()
    return "".join(f"    {line}" if line.strip() else line for line in text.splitlines(keepends=True))
