"""Honest programs pass, at every level, whoever runs beside them: through a sandbox-service and its public API.

Short in `make test`; `make soak` has 5,000 honest programs and 500 attacks at each level, alone and beside load. By
environment variables: HONEST_PROGRAMS (300 of the mixed run), HONEST_LOAD (processes that compute beside it, for each
core; 0).
"""

import asyncio
import os
import random
import warnings
from itertools import chain, cycle, islice
from pathlib import Path

import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from sandbox_service import honest

from . import traffic

pytestmark = [pytest.mark.e2e, pytest.mark.honest, pytest.mark.timeout(3600)]

PROGRAMS = int(os.environ.get("HONEST_PROGRAMS", "300"))
LOAD = int(os.environ.get("HONEST_LOAD", "0"))
HOSTILE = 10  # of so many one
COMPILED = 25  # of so many honest ones one is in another language: a second each
PASSED = verdict_pb2.VERDICT_PASSED


def told(item: pb.ExecutionItem, program: pb.Program) -> str:
    one = item.execution
    what = item.platform_error or f"{verdict_pb2.Verdict.Name(one.verdict)} {one.detail} {one.stderr[-200:]}"
    return f"{program.id}: {what}"


async def judged_wrong(target: str, programs: list[pb.Program]) -> list[str]:
    """Honest ones that did not pass, hostile ones and wrong twins that did, and whatever did not come back."""
    wrong, left = [], dict(enumerate(programs))
    async for item in traffic.run(target, programs):
        program = left.pop(item.index)
        bad = program.id.startswith(("attack:", "wrong:"))
        if item.platform_error or (item.execution.verdict == PASSED) is bad:
            wrong.append(told(item, program))
    return wrong + [f"{program.id}: no answer" for program in left.values()]


def wrong_twins(programs: list[pb.Program]) -> list[pb.Program]:
    twins = [twin for program in programs if (twin := honest.wrong(program))]
    for twin in twins:
        twin.id = f"wrong:{twin.id}"
    return twins


def mixture(programs: list[pb.Program], attacks: list[pb.Program], count: int) -> list[pb.Program]:
    """In random order, one in ten hostile; hostile ones before the first and after the last of each lane."""
    order = random.Random(count)
    order.shuffle(programs)
    order.shuffle(attacks)
    many, ends = count // HOSTILE, 2 * traffic.CORES
    bad = list(islice(cycle(attacks), max(many, 2 * ends)))
    python, compiled = ([one for one in programs if bool(one.language) is other] for other in (False, True))
    few = count // COMPILED if compiled else 0
    between = [*islice(cycle(python), count - few), *islice(cycle(compiled or python), few), *bad[2 * ends :]]
    order.shuffle(between)
    return [*bad[:ends], *between, *bad[ends : 2 * ends]]


async def offered(target: str) -> list[pb.Program]:
    """The honest programs that the service can run; it warns of what they lack otherwise."""
    programs, lacking = await traffic.offered(target, honest.cases())
    if lacking:
        warnings.warn(f"some honest programs are skipped: {'; '.join(lacking)}", stacklevel=1)
    return programs


def test_each_alone_and_its_wrong_twin(tmp_path: Path) -> None:
    """None of them hostile. Of other languages two each, unless HONEST_PROGRAMS is more than there are."""

    async def judge(target: str) -> list[str]:
        programs = await offered(target)
        seen: dict[str, int] = {}
        chosen = []
        for program in programs:
            seen[program.language] = seen.get(program.language, 0) + 1
            if not program.language or seen[program.language] <= 2 or len(programs) < PROGRAMS:
                chosen.append(program)
        return await judged_wrong(target, list(chain(chosen, wrong_twins(chosen))))

    try:
        with traffic.service(tmp_path, traffic.CORES) as running:
            wrong = asyncio.run(judge(running.target))
    except LookupError as error:
        pytest.skip(str(error))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("level", ["L3", "L2", "L1"])
def test_among_hostile_ones(tmp_path: Path, level: str) -> None:
    async def judge(target: str) -> list[str]:
        attacks, _ = await traffic.offered(target, traffic.hostile(int(level[1])))
        return await judged_wrong(target, mixture(await offered(target), attacks, PROGRAMS))

    try:
        with traffic.burners(LOAD * traffic.CORES), traffic.service(tmp_path, traffic.CORES, level) as running:
            wrong = asyncio.run(judge(running.target))
    except LookupError as error:
        pytest.skip(str(error))
    assert not wrong, "\n".join(wrong)
    assert os.listdir(tmp_path) == []
