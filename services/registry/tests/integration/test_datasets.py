"""Data sets over gRPC, as other services fetch them."""

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet.registry.v1 import dataset_pb2_grpc
from ratchet_environments.folders import sets
from ratchet_environments.folders.folder import find, read
from ratchet_environments.folders.sets import TaskSet
from ratchet_kit.client import channel
from ratchet_kit.errors import AlreadyExists, DataLoss, FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.names import DatasetRef
from ratchet_kit.times import timestamp_to_proto
from ratchet_problems import dataset_cache, jsonl, load
from ratchet_problems.dataset_cache import cached_tasks
from ratchet_problems.dataset_fetching import Datasets
from ratchet_problems.sets import load_pairs
from ratchet_testing.services import serving
from registry_service.servicer import DatasetServicer

from ..conftest import files_below
from ..unit.test_datasets import World, world
from ..unit.test_pair_work import ANN, BOB, LATER
from ..unit.test_pair_work import jsonl as jsonl_of

pytestmark = pytest.mark.integration
__all__ = ["world"]
EXAMPLES = Path(__file__).parents[4] / "examples/tasks"
MIB = 1 << 20
PROBLEMS = load("composed/test", limit=5)


@pytest.fixture
async def door(world: World) -> AsyncIterator[grpc.aio.Channel]:
    def add(server: grpc.aio.Server) -> list[str]:
        dataset_pb2_grpc.add_DatasetServiceServicer_to_server(DatasetServicer(world.datasets, world.findings), server)
        return ["ratchet.registry.v1.DatasetService"]

    async with serving(add) as target, channel(target) as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RATCHET_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def content(path: Path) -> bytes:
    jsonl.write(PROBLEMS, path)
    return path.read_bytes()


async def test_a_split_is_fetched_once_and_read_by_name(
    world: World,
    door: grpc.aio.Channel,
    home: Path,
    tmp_path: Path,
) -> None:
    await world.add({"train": content(tmp_path / "set.jsonl")})
    datasets = Datasets(door)
    for name in ("mine", "mine@1", "mine/train", "mine@1/train"):
        assert await datasets.fetch(DatasetRef.parse(name)) == DatasetRef("mine", 1, "train")
    assert load("mine@1/train", limit=3) == PROBLEMS[:3]
    (file,) = files_below(home)
    os.utime(file, (1, 1))
    await datasets.fetch(DatasetRef("mine", 1, "train"))
    assert file.stat().st_mtime > 1, "what is used lately stays longest"


async def test_what_cannot_be_fetched_says_why(
    world: World, door: grpc.aio.Channel, home: Path, tmp_path: Path
) -> None:
    data, datasets = content(tmp_path / "set.jsonl"), Datasets(door)
    with pytest.raises(NotFound, match="there is no data set 'mine'; there are no data sets yet"):
        await datasets.fetch(DatasetRef("mine"))
    await world.add({"train": data, "test": data + b"\n"})
    with pytest.raises(FailedPrecondition, match="mine@1 has the splits train, test: name one, such as mine@1/train"):
        await datasets.fetch(DatasetRef("mine"))
    with pytest.raises(NotFound, match="mine@1 has no split 'dev'; it has train, test"):
        await datasets.fetch(DatasetRef("mine", None, "dev"))
    await world.add({"train": b"{}\n"}, "bad")
    with pytest.raises(FailedPrecondition, match="data set bad@1 is failed: train line 1"):
        await datasets.fetch(DatasetRef("bad", 1))
    await world.add({"rows": b'{"a": 1}\n'}, "mbpp", edition="v1")
    with pytest.raises(FailedPrecondition, match="mbpp@1 holds the rows of a public benchmark: name it mbpp"):
        await datasets.fetch(DatasetRef("mbpp"))
    assert await datasets.rows("mbpp") == ("v1", b'{"a": 1}\n')
    assert await datasets.rows("mbpp", "v2") is None
    assert await datasets.rows("nothing") is None
    assert await datasets.rows("bad") is None


async def test_task_folders_are_fetched_once_and_are_no_problems(
    world: World, door: grpc.aio.Channel, home: Path, tmp_path: Path
) -> None:
    file, datasets = sets.write({"train": find([EXAMPLES])}, tmp_path)["train"], Datasets(door)
    await world.add({"train": file.read_bytes()}, "tasks", part=MIB, folders=True)
    await world.add({"train": content(tmp_path / "set.jsonl")})
    for fetch in (datasets.fetch, datasets.fetch_pairs):
        with pytest.raises(FailedPrecondition, match="tasks@1 holds task folders, which programs work on"):
            await fetch(DatasetRef("tasks"))
    with pytest.raises(FailedPrecondition, match="mine@1 holds no task folders"):
        await datasets.fetch_tasks(DatasetRef("mine"))
    assert files_below(home) == []
    found = await datasets.fetch_tasks(DatasetRef("tasks"))
    assert list(TaskSet(cached_tasks(found))) == [read(path) for path in find([EXAMPLES])]
    (kept,) = files_below(home)
    os.utime(kept, (1, 1))
    await datasets.fetch_tasks(DatasetRef("tasks", 1, "train"))
    assert kept.stat().st_mtime > 1, "what is used lately stays longest"


async def test_a_damaged_content_is_never_kept(
    world: World, door: grpc.aio.Channel, home: Path, tmp_path: Path
) -> None:
    dataset = await world.add({"train": content(tmp_path / "set.jsonl")})
    kept = world.root / "contents" / dataset.splits["train"].content.sha256
    data = kept.read_bytes()
    kept.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(DataLoss, match="mine@1/train is damaged"):
        await Datasets(door).fetch(DatasetRef("mine"))
    assert files_below(home) == []


async def test_the_longest_unused_makes_room(
    world: World,
    door: grpc.aio.Channel,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, datasets = content(tmp_path / "set.jsonl"), Datasets(door)
    for name in ("a", "b", "c"):
        await world.add({"train": data}, name)
    for age, name in enumerate(("b", "a"), start=1):
        os.utime(dataset_cache.cached(await datasets.fetch(DatasetRef(name))), (age, age))
    size = dataset_cache.cached(DatasetRef("a", 1, "train")).stat().st_size
    monkeypatch.setattr("ratchet_problems.dataset_fetching.MOST_BYTES", 2 * size)
    await datasets.fetch(DatasetRef("c"))
    assert {path.parent.name for path in files_below(home)} == {"a@1", "c@1"}


def quantiles(value: float) -> pb.Quantiles:
    return pb.Quantiles(**dict.fromkeys(("least", "p5", "p25", "median", "p75", "p95", "most"), value))


async def test_the_whole_way_by_rpc(world: World, door: grpc.aio.Channel, tmp_path: Path) -> None:
    data, stub = content(tmp_path / "set.jsonl"), dataset_pb2_grpc.DatasetServiceStub(door)
    split = pb.DatasetSplit(name="train", size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    wanted = pb.CreateDatasetRequest(request_id="r", name="mine", splits=[split], card=pb.DatasetCard(licence="MIT"))
    with rpc_errors():
        made = (await stub.CreateDataset(wanted)).dataset
        assert (await stub.CreateDataset(wanted)).dataset == made
        written = await stub.WriteDataset(pb.WriteDatasetRequest(name="mine", number=1, split="train", data=data))
    assert (made.state, written.received_bytes) == (pb.Dataset.STATE_UPLOADING, len(data))
    ready = await world.settled(await world.datasets.get(DatasetRef("mine", 1)))
    with rpc_errors():
        (listed,) = (await stub.ListDatasets(pb.ListDatasetsRequest())).datasets
        found = (await stub.GetDataset(pb.GetDatasetRequest(name="mine"))).dataset
        (seen,) = [it.dataset async for it in stub.WatchDataset(pb.WatchDatasetRequest(name="mine", number=1))]
        assert listed == found == seen
        assert (found.state, found.splits[0].rows, found.card.licence) == (pb.Dataset.STATE_READY, 5, "MIT")
        balance = found.splits[0].balance
        assert [(one.name, one.problems) for one in balance.languages] == [("python", 5)]
        assert balance.prompt.least == min(len(problem.prompt) for problem in PROBLEMS)
        read = pb.ReadDatasetRequest(name="mine", number=1, split="train", offset=3)
        assert (await stub.ReadDataset(read)).data == (await world.content(ready))[3:]
        await stub.UseDataset(pb.UseDatasetRequest(name="mine", number=1, user="run_1"))
        (finding, *_) = (await stub.ListFindings(pb.ListFindingsRequest(name="mine", number=1, page_size=1))).findings
        decide = pb.DecideFindingsRequest(
            name="mine", number=1, kind=finding.kind, state=pb.Finding.STATE_ACCEPTED, reason="for RL alone"
        )
        assert (await stub.DecideFindings(decide)).findings == 5
        accepted = pb.ListFindingsRequest(name="mine", number=1, state=pb.Finding.STATE_ACCEPTED)
        (*_, last) = (await stub.ListFindings(accepted)).findings
        assert (finding.state, last.state) == (pb.Finding.STATE_OPEN, pb.Finding.STATE_ACCEPTED)
        assert (last.decision.reason, last.decision.dataset) == ("for RL alone", "mine@1")
        runs = pb.ReferenceRuns(problems=5, strict=3, shared=1, cpu_time=quantiles(0.25), memory_bytes=quantiles(MIB))
        report = pb.ReportUnsoundRequest(
            name="mine", number=1, split="train", reasons={PROBLEMS[0].id: "FAILED 1 is not 2"}, runs=runs
        )
        await stub.ReportUnsound(report)
        ran = (await stub.GetDataset(pb.GetDatasetRequest(name="mine"))).dataset.splits[0].references
        assert (ran.strict, ran.shared, ran.cpu_time) == (3, 1, quantiles(0.25))
        assert (ran.cpu_time_limit.seconds, ran.memory_limit_bytes) == (3, 256 * MIB)
        report.ClearField("runs")
        await stub.ReportUnsound(report)
        assert (await stub.GetDataset(pb.GetDatasetRequest(name="mine"))).dataset.splits[0].references == ran
        unsound = pb.ListFindingsRequest(name="mine", number=1, kind=pb.Finding.KIND_UNSOUND)
        (reported,) = (await stub.ListFindings(unsound)).findings
        assert (reported.problem, reported.detail) == (PROBLEMS[0].id, "FAILED 1 is not 2")
    for field, wrong in {
        "reasons.nobody": pb.ReportUnsoundRequest(reasons={PROBLEMS[1].id: "r", "nobody": "r"}),
        "runs.problems": pb.ReportUnsoundRequest(runs=pb.ReferenceRuns(problems=6)),
        "runs.shared": pb.ReportUnsoundRequest(runs=pb.ReferenceRuns(problems=4, strict=3, shared=2)),
        "runs.cpu_time": pb.ReportUnsoundRequest(runs=pb.ReferenceRuns(cpu_time=pb.Quantiles(least=1))),
    }.items():
        wrong.MergeFrom(pb.ReportUnsoundRequest(name="mine", number=1, split="train"))
        with pytest.raises(InvalidArgument) as error, rpc_errors():
            await stub.ReportUnsound(wrong)
        assert [violation.field for violation in error.value.violations] == [field]
    with pytest.raises(InvalidArgument, match=r"reasons\.x"), rpc_errors():
        await stub.ReportUnsound(
            pb.ReportUnsoundRequest(name="mine", number=1, split="train", reasons={"x": "r" * 401})
        )
    with pytest.raises(NotFound, match="has no split 'dev'"), rpc_errors():
        await stub.ReportUnsound(pb.ReportUnsoundRequest(name="mine", number=1, split="dev"))
    with pytest.raises(InvalidArgument, match="state must not be empty"), rpc_errors():
        await stub.DecideFindings(pb.DecideFindingsRequest(name="mine", number=1, reason="r"))
    with pytest.raises(InvalidArgument, match="kind is not known"), rpc_errors():
        await stub.ListFindings(pb.ListFindingsRequest(name="mine", number=1, kind=77))
    with pytest.raises(FailedPrecondition, match="it was used once"), rpc_errors():
        await stub.DeleteDataset(pb.DeleteDatasetRequest(name="mine", number=1))
    wanted.name = "other"
    for request, error in (
        (stub.CreateDataset(wanted), AlreadyExists),
        (stub.CreateDataset(pb.CreateDatasetRequest(name="x", splits=[split, split])), InvalidArgument),
        (stub.GetDataset(pb.GetDatasetRequest(name="No Name")), InvalidArgument),
        (stub.WatchDataset(pb.WatchDatasetRequest(name="mine", number=2)).read(), NotFound),
        (stub.ReadDataset(pb.ReadDatasetRequest(name="mine", number=1, split="train", offset=-1)), InvalidArgument),
    ):
        with pytest.raises(error), rpc_errors():
            await request
    with rpc_errors():
        await stub.DeleteDataset(pb.DeleteDatasetRequest(name="mine", number=1, force=True))


async def test_pairs_leave_the_cache_once_somebody_is_forgotten(
    world: World, door: grpc.aio.Channel, home: Path, tmp_path: Path
) -> None:
    stub, datasets = dataset_pb2_grpc.DatasetServiceStub(door), Datasets(door)
    first = await world.add({"train": jsonl_of(ANN, BOB)}, "chats", pairs=True)
    await world.add({"train": content(tmp_path / "set.jsonl")})
    with pytest.raises(FailedPrecondition, match="chats@1 holds pairs, which DPO and reward models learn from"):
        await datasets.fetch(DatasetRef("chats"))
    with pytest.raises(FailedPrecondition, match="mine@1 holds problems, and no pairs"):
        await datasets.fetch_pairs(DatasetRef("mine"))
    assert await datasets.fetch_pairs(DatasetRef("chats")) == DatasetRef("chats", 1, "train")
    assert [pair.chosen for pair in load_pairs("chats@1/train")] == ["good a", "good b"]
    await datasets.forget()
    assert len(files_below(home)) == 1, "nobody is forgotten yet"
    later = timestamp_to_proto(LATER)
    with rpc_errors():
        await stub.ForgetUnits(pb.ForgetUnitsRequest(units=[pb.ForgottenUnit(unit="ann", forget_time=later)]))
    with pytest.raises(FailedPrecondition, match="data set chats@1 is examining"):
        await datasets.fetch_pairs(first.ref)
    await datasets.forget()
    assert files_below(home) == []
    await world.settled(first)
    assert await datasets.fetch_pairs(DatasetRef("chats")) == DatasetRef("chats", 2, "train")
    assert [pair.chosen for pair in load_pairs("chats@2/train")] == ["good b"]
    with pytest.raises(InvalidArgument), rpc_errors():
        await stub.ForgetUnits(pb.ForgetUnitsRequest(units=[pb.ForgottenUnit()]))
