"""kill -9 of the registry, and a Redis that lost everything, amid an upload, an examination and a fetch: nothing half
is ever used. The sandbox has no part in any of the three: the registry runs no programs."""

import asyncio
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet.registry.v1 import dataset_pb2_grpc
from ratchet_kit.errors import FailedPrecondition, NotFound, RatchetError
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.names import DatasetRef
from ratchet_problems import load
from ratchet_problems.dataset_fetching import Datasets

from ..conftest import files_below
from .test_service import Machine, Process, evaluations, machine

pytestmark = pytest.mark.integration
__all__ = ["evaluations", "machine"]

PROBLEMS = [replace(problem, id=f"{place}") for place, problem in enumerate(load("composed/train", limit=500) * 4)]
DATA = "".join(f"{json.dumps(problem.to_json())}\n" for problem in PROBLEMS).encode()
CHUNK = 64 << 10


def stub(process: Process) -> Any:
    return dataset_pb2_grpc.DatasetServiceStub(process.door)


async def state(process: Process) -> pb.Dataset:
    return (await stub(process).GetDataset(pb.GetDatasetRequest(name="mine", number=1))).dataset


async def write(process: Process, upto: int) -> None:
    """From where the registry is."""
    done = (await state(process)).splits[0].received_bytes
    while done < upto:
        data = DATA[done : min(done + CHUNK, upto)]
        request = pb.WriteDatasetRequest(name="mine", number=1, split="train", offset=done, data=data)
        done = (await stub(process).WriteDataset(request)).received_bytes


async def check_unused(process: Process) -> None:
    with pytest.raises(NotFound), rpc_errors():
        await stub(process).GetDataset(pb.GetDatasetRequest(name="mine"))
    with pytest.raises(FailedPrecondition), rpc_errors():
        await stub(process).ReadDataset(pb.ReadDatasetRequest(name="mine", number=1, split="train"))


async def test_nothing_half_is_used(
    machine: Machine,
    redis: redis.asyncio.Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RATCHET_HOME", str(tmp_path / "home"))

    async def killed(process: Process) -> None:
        await process.kill()
        await redis.flushall()

    async with machine.registry() as process:
        split = pb.DatasetSplit(name="train", size_bytes=len(DATA), sha256=hashlib.sha256(DATA).hexdigest())
        await stub(process).CreateDataset(pb.CreateDatasetRequest(name="mine", splits=[split]))
        half = len(DATA) // 2
        await write(process, half)
        request = pb.WriteDatasetRequest(name="mine", number=1, split="train", offset=half, data=DATA[half:][:CHUNK])
        late = asyncio.ensure_future(stub(process).WriteDataset(request))  # is written, or not, or in part
        await killed(process)
        await asyncio.gather(late, return_exceptions=True)

    async with machine.registry() as process:
        await check_unused(process)
        await write(process, len(DATA))
        await check_unused(process)
        await killed(process)  # amid the examination, which takes seconds

    async with machine.registry() as process:
        async with asyncio.timeout(90):
            watched = pb.WatchDatasetRequest(name="mine", number=1)
            ready = [it.dataset async for it in stub(process).WatchDataset(watched)][-1]
        assert (ready.state, ready.splits[0].rows) == (pb.Dataset.STATE_READY, len(PROBLEMS)), ready.failure
        findings = pb.ListFindingsRequest(name="mine", number=1, page_size=1_000)
        found = (await stub(process).ListFindings(findings)).findings
        assert len({(it.kind, it.problem, it.other_set) for it in found}) == len(found), "none twice"
        fetching = asyncio.create_task(Datasets(process.door).fetch(DatasetRef("mine", 1, "train")))
        await asyncio.sleep(0)
        await killed(process)
        [fetched] = await asyncio.gather(fetching, return_exceptions=True)
        assert isinstance(fetched, RatchetError | DatasetRef)
        for file in files_below(tmp_path / "home"):
            assert not isinstance(fetched, RatchetError), f"{file} is half"

    async with machine.registry() as process:
        await Datasets(process.door).fetch(DatasetRef("mine", 1, "train"))
    assert list(load("mine@1/train")) == PROBLEMS
