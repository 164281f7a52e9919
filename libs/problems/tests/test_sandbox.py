"""Every reference, before the judge that counts: a sandbox-service of its own."""

import asyncio
from datetime import timedelta

import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2
from ratchet_environments import Limits, Task
from ratchet_environments.programs import program_for
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_kit.client import channel, wait_healthy
from ratchet_problems import NAMES, load

pytestmark = pytest.mark.integration

BATCH = 64
UNDER_WAY = 4
LIMITS = Limits(cpu_time=timedelta(seconds=5))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "composed/demonstrations"])
async def test_every_reference_passes_in_the_sandbox(sandbox_target: str, name: str) -> None:
    programs = [
        program_for(Task.of(problem, limits=LIMITS), reference, program_id=f"{problem.id}/{index}")
        for problem in load(name)
        for index, reference in enumerate(problem.references)
    ]
    await wait_healthy(sandbox_target, timedelta(seconds=60))
    limit = asyncio.Semaphore(UNDER_WAY)
    async with channel(sandbox_target) as door:
        sandbox = GrpcSandbox(door)

        async def execute(batch: list[program_pb2.Program]) -> list[program_pb2.ExecutionItem]:
            async with limit:
                return list(await sandbox.execute_batch(batch))

        batches = [programs[start : start + BATCH] for start in range(0, len(programs), BATCH)]
        items = [item for done in await asyncio.gather(*map(execute, batches)) for item in done]

    assert len(items) == len(programs)
    assert [item.platform_error for item in items if item.platform_error] == []
    failed = [item.execution for item in items if item.execution.verdict != verdict_pb2.VERDICT_PASSED]
    assert [f"{one.id}: {verdict_pb2.Verdict.Name(one.verdict)} {one.detail}" for one in failed] == []
