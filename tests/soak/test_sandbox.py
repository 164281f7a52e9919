"""What only shows after many programs: `make soak`, eight minutes or so on two cores.

Through a sandbox-service of its own and its public API. SOAK_PROGRAMS (default 100,000) and SOAK_REFERENCES (default
20,000) shorten it.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Iterable
from itertools import chain, cycle, islice
from pathlib import Path

import psutil
import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2
from ratchet_environments import Task
from ratchet_environments.programs import program_for
from ratchet_problems import load
from tests.honest import traffic

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(3600)]

PROGRAMS = int(os.environ.get("SOAK_PROGRAMS", "100000"))
REFERENCES = int(os.environ.get("SOAK_REFERENCES", "20000"))


def references() -> list[program_pb2.Program]:
    problems = chain(load("composed/train"), load("basics"))
    return [program_for(Task.of(problem), problem.references[0]) for problem in problems]


def test_nothing_is_lost_over_many_programs(tmp_path: Path) -> None:
    """One in ten is hostile."""
    good, bad = references(), traffic.hostile(kinds=["call"])
    assert len(bad) >= 40
    order = random.Random(0)
    kinds = [bad if order.random() < 0.1 else good for _ in range(PROGRAMS)]
    programs = [order.choice(kind) for kind in kinds]

    async def soak(target: str, process: psutil.Process) -> tuple[Counter[str], list[int]]:
        verdicts: Counter[str] = Counter()
        memory: list[int] = []
        done = 0
        async for item in traffic.run(target, programs):
            assert not item.platform_error, item.platform_error
            one = item.execution
            name = "attack" if one.id.startswith("attack:") else "reference"
            verdicts[f"{name} {verdict_pb2.Verdict.Name(one.verdict)}"] += 1
            done += 1
            if done % (PROGRAMS // 10) == 0:
                memory.append(process.memory_info().rss)
                print(f"{done} programs, {memory[-1] >> 20} MiB, {dict(verdicts)}", flush=True)
        return verdicts, memory

    with traffic.service(tmp_path, traffic.CORES) as running:
        asyncio.run(settle(running.target, [*good[:200], *bad]))
        before = running.traces()
        verdicts, memory = asyncio.run(soak(running.target, running.process))
        assert running.traces() == before
    assert sum(verdicts.values()) == PROGRAMS
    assert verdicts["reference VERDICT_PASSED"] == sum(kind is good for kind in kinds)
    assert verdicts["attack VERDICT_PASSED"] == 0
    assert max(memory[2:]) <= 1.05 * memory[2], [size >> 20 for size in memory]
    assert os.listdir(tmp_path) == []


def test_no_false_verdict_under_load(tmp_path: Path) -> None:
    """Four times as many programs at a time as cores, beside as many processes that only compute."""
    with traffic.burners(traffic.CORES), traffic.service(tmp_path, 4 * traffic.CORES) as running:
        wrong = asyncio.run(false_verdicts(running.target, islice(cycle(references()), REFERENCES)))
    assert wrong == []


async def settle(target: str, programs: list[program_pb2.Program]) -> None:
    async for _ in traffic.run(target, programs):
        pass


async def false_verdicts(target: str, programs: Iterable[program_pb2.Program]) -> list[str]:
    wrong, done = [], 0
    async for item in traffic.run(target, programs):
        done += 1
        if item.platform_error or item.execution.verdict != verdict_pb2.VERDICT_PASSED:
            wrong.append(f"{item.execution.id}: {item.platform_error or item.execution.detail}")
    assert done == REFERENCES
    return wrong
