"""Stored batches through real nodes, Redis and SQL: what is lost or killed neither costs nor adds a verdict."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from ratchet.common.v1 import priority_pb2, verdict_pb2
from ratchet.common.v1 import problem_pb2 as common
from ratchet.sandbox.v1 import batch_pb2, diagnostics_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit import sql_engine
from ratchet_kit.client import channel, wait_healthy
from ratchet_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Unavailable
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_testing.ports import free_port

from ..node import Stubs

pytestmark = pytest.mark.integration


class Node:
    """`python -m sandbox_service.main`."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self.port = free_port()
        self.target = f"127.0.0.1:{self.port}"
        settings = {
            "RATCHET_SANDBOX_PORT": str(self.port),
            "RATCHET_SANDBOX_LANES": "1",
            "RATCHET_SANDBOX_BATCH_LEASE": "1",
            "RATCHET_SANDBOX_LOG_LEVEL": "DEBUG",
            "PYTHONFAULTHANDLER": "1",
        }
        self.log = folder / f"node-{self.port}.log"
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "sandbox_service.main"]
            self.process = subprocess.Popen(command, env={**os.environ, **settings, **environment}, stderr=log)

    def end(self) -> None:
        self.process.terminate()
        try:
            assert self.process.wait(20) in (0, -9), self.log.read_text()[-4000:]
        except subprocess.TimeoutExpired as error:
            self.process.send_signal(signal.SIGABRT)  # its log gets the stack of each thread
            self.process.wait(10)
            raise AssertionError(f"the node did not end: {self.log.read_text()[-8000:]}") from error
        finally:
            self.process.kill()

    def kill(self) -> None:
        """kill -9: no chance to give anything back."""
        self.process.kill()
        self.process.wait(10)


class Cluster:
    def __init__(self, stack: ExitStack, redis_url: str, database_url: str, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self.database_url = database_url
        self._environment = {"REDIS_URL": redis_url, "DATABASE_URL": database_url}

    async def node(self) -> Node:
        node = Node(self._environment, self._folder)
        self._stack.callback(node.end)
        await wait_healthy(node.target, timedelta(seconds=30))
        return node

    async def rows(self, query: str) -> list[Any]:
        engine = sql_engine.create_engine(self.database_url)
        try:
            async with engine.connect() as connection:
                return list((await connection.execute(text(query))).all())
        finally:
            await engine.dispose()


@pytest.fixture
def cluster(request: pytest.FixtureRequest, redis_url: str, redis: Any, tmp_path: Path) -> Iterator[Cluster]:
    """Of nodes that share a queue and a database: SQLite unless asked for another."""
    database_url = request.getfixturevalue(getattr(request, "param", "sqlite_url"))
    with ExitStack() as stack:
        yield Cluster(stack, redis_url, database_url, tmp_path)


ON_BOTH = pytest.mark.parametrize("cluster", ["sqlite_url", "postgres_url"], indirect=True)


def programs(count: int, source: str = "print({})") -> list[pb.Program]:
    return [pb.Program(id=f"p{i}", source=source.format(i)) for i in range(count)]


async def watched(stub: Stubs, id: str) -> tuple[batch_pb2.Batch, list[pb.ExecutionItem]]:
    """Reads a batch to its end: what it ended as, and its items by index."""
    items: list[pb.ExecutionItem] = []
    async with asyncio.timeout(120):
        async for reply in stub.batches.WatchBatch(batch_pb2.WatchBatchRequest(id=id)):
            items += reply.items
    return reply.batch, sorted(items, key=lambda item: item.index)


def check_all_ran(batch: batch_pb2.Batch, items: list[pb.ExecutionItem], count: int) -> None:
    assert (batch.state, batch.programs_done, batch.programs_total) == (batch_pb2.Batch.STATE_SUCCEEDED, count, count)
    assert [item.index for item in items] == list(range(count))
    assert {item.execution.verdict for item in items} == {verdict_pb2.VERDICT_PASSED}
    assert [item.execution.stdout for item in items] == [f"{i}\n" for i in range(count)]


async def until_done(stub: Stubs, id: str, least: int) -> None:
    async with asyncio.timeout(60):
        while (await stub.batches.GetBatch(batch_pb2.GetBatchRequest(id=id))).batch.programs_done < least:
            await asyncio.sleep(0.05)


SLOW = "import time; time.sleep(0.04); print({})"


@pytest.mark.parametrize("cluster", ["postgres_url"], indirect=True)
async def test_two_nodes_work_one_batch_off(cluster: Cluster) -> None:
    one, two = await cluster.node(), await cluster.node()
    async with channel(one.target) as first, channel(two.target) as second:
        request = batch_pb2.CreateBatchRequest(
            programs=programs(200, SLOW), request_id="r", priority=priority_pb2.PRIORITY_HIGH
        )
        created = (await Stubs.of(first).batches.CreateBatch(request)).batch
        assert (created.state, created.programs_total) == (batch_pb2.Batch.STATE_RUNNING, 200)
        assert (await Stubs.of(second).batches.CreateBatch(request)).batch.id == created.id
        here, there = await asyncio.gather(watched(Stubs.of(first), created.id), watched(Stubs.of(second), created.id))
        check_all_ran(*here, 200)
        assert here == there == await watched(Stubs.of(first), created.id)
        assert here[0].end_time.ToDatetime() > created.create_time.ToDatetime()
        with pytest.raises(AlreadyExists, match="used before"), rpc_errors():
            await Stubs.of(first).batches.CreateBatch(
                batch_pb2.CreateBatchRequest(programs=programs(1), request_id="r")
            )
        with pytest.raises(FailedPrecondition, match="succeeded"), rpc_errors():
            await Stubs.of(first).batches.CancelBatch(batch_pb2.CancelBatchRequest(id=created.id))
    assert all("work.taken" in node.log.read_text() for node in (one, two))


@ON_BOTH
async def test_after_a_kill_9_each_program_has_one_verdict(cluster: Cluster, redis: Any) -> None:
    """One of two nodes dies with chunks in hand, then the other, and one that comes later does the rest."""
    one, two = await cluster.node(), await cluster.node()
    async with channel(one.target) as door:
        stub = Stubs.of(door)
        id = (await stub.batches.CreateBatch(batch_pb2.CreateBatchRequest(programs=programs(100, SLOW)))).batch.id
        await until_done(stub, id, 20)
    one.kill()
    async with channel(two.target) as door:
        done = (await Stubs.of(door).batches.GetBatch(batch_pb2.GetBatchRequest(id=id))).batch.programs_done
        await until_done(Stubs.of(door), id, done + 10)
    two.kill()
    three = await cluster.node()
    async with channel(three.target) as door:
        before = (await Stubs.of(door).batches.GetBatch(batch_pb2.GetBatchRequest(id=id))).batch
        assert before.state == batch_pb2.Batch.STATE_RUNNING
        assert 0 < before.programs_done < 100
        check_all_ran(*await watched(Stubs.of(door), id), 100)
    indices = [index for (index,) in await cluster.rows('SELECT "index" FROM sandbox_batch_records')]
    assert sorted(indices) == list(range(100))


async def test_flushall_loses_nothing(cluster: Cluster, redis: Any) -> None:
    node = await cluster.node()
    async with channel(node.target) as door:
        stub = Stubs.of(door)
        made = [
            (await stub.batches.CreateBatch(batch_pb2.CreateBatchRequest(programs=programs(100, SLOW)))).batch.id
            for _ in range(2)
        ]
        await until_done(stub, made[0], 10)
        await redis.flushall()
        for id in made:
            check_all_ran(*await watched(stub, id), 100)


async def test_flushall_and_kill_9_together_lose_nothing(cluster: Cluster, redis: Any) -> None:
    node = await cluster.node()
    async with channel(node.target) as door:
        id = (
            await Stubs.of(door).batches.CreateBatch(batch_pb2.CreateBatchRequest(programs=programs(120, SLOW)))
        ).batch.id
        await until_done(Stubs.of(door), id, 10)
    node.kill()
    await redis.flushall()
    async with channel((await cluster.node()).target) as door:
        check_all_ran(*await watched(Stubs.of(door), id), 120)


async def test_a_node_that_is_stopped_gives_back_what_it_has(cluster: Cluster) -> None:
    one = await cluster.node()
    async with channel(one.target) as door:
        id = (
            await Stubs.of(door).batches.CreateBatch(batch_pb2.CreateBatchRequest(programs=programs(100, SLOW)))
        ).batch.id
        await until_done(Stubs.of(door), id, 5)
    await asyncio.to_thread(one.end)
    assert one.process.returncode == 0
    held = "SELECT count(*) FROM sandbox_batch_chunks WHERE held_by <> '' OR attempts > 0 AND NOT done"
    assert await cluster.rows(held) == [(0,)]
    async with channel((await cluster.node()).target) as door:
        check_all_ran(*await watched(Stubs.of(door), id), 100)


async def test_cancelling_ends_what_has_not_run(cluster: Cluster) -> None:
    node = await cluster.node()
    endless = pb.Program(source="while True: pass")
    endless.limits.cpu_time.FromTimedelta(timedelta(seconds=50))
    async with channel(node.target) as door:
        stub = Stubs.of(door)
        made = [*programs(3), endless, endless, *programs(60)]
        id = (await stub.batches.CreateBatch(batch_pb2.CreateBatchRequest(programs=made))).batch.id
        await until_done(stub, id, 3)
        watching = asyncio.create_task(watched(stub, id))
        await asyncio.sleep(0.3)
        cancelled = (await stub.batches.CancelBatch(batch_pb2.CancelBatchRequest(id=id))).batch
        assert cancelled.state == batch_pb2.Batch.STATE_CANCELLED
        batch, items = await watching
        assert batch == cancelled == (await stub.batches.CancelBatch(batch_pb2.CancelBatchRequest(id=id))).batch
        assert len(items) == batch.programs_done < 65
        # the lane is free again well before the endless ones would have ended
        execution = await stub.programs.Execute(pb.ExecuteRequest(program=programs(1)[0]), timeout=10)
        assert execution.execution.verdict == verdict_pb2.VERDICT_PASSED


async def test_wrong_calls_are_answered_in_a_sentence(cluster: Cluster) -> None:
    async with channel((await cluster.node()).target) as door:
        stub = Stubs.of(door)
        for unknown in ("batch_nowhere", "a\0b", ""):
            with pytest.raises(NotFound, match="no batch"), rpc_errors():
                await stub.batches.GetBatch(batch_pb2.GetBatchRequest(id=unknown))
            with pytest.raises(NotFound, match="no batch"), rpc_errors():
                await stub.batches.CancelBatch(batch_pb2.CancelBatchRequest(id=unknown))
            with pytest.raises(NotFound, match="no batch"), rpc_errors():
                await stub.batches.DeleteBatch(batch_pb2.DeleteBatchRequest(id=unknown))
            with pytest.raises(NotFound, match="no batch"), rpc_errors():
                await watched(stub, unknown)
        bad = pb.Program(entry_point="f", tests=[common.Test(call=common.CallTest(args="f()", expected="2"))])
        wrong = {
            "programs": batch_pb2.CreateBatchRequest(),
            "programs[1].tests[0].call.args": batch_pb2.CreateBatchRequest(programs=[*programs(1), bad]),
            "programs[0].runtime": batch_pb2.CreateBatchRequest(
                programs=[pb.Program(source="echo", language="bash", runtime="zsh")]
            ),
            "priority": batch_pb2.CreateBatchRequest(programs=programs(1), priority=77),  # type: ignore[arg-type]
            "request_id": batch_pb2.CreateBatchRequest(programs=programs(1), request_id="x" * 201),
        }
        for field, request in wrong.items():
            with pytest.raises(InvalidArgument) as refused, rpc_errors():
                await stub.batches.CreateBatch(request)
            assert [violation.field for violation in refused.value.violations] == [field]
        assert await cluster.rows("SELECT count(*) FROM sandbox_batches") == [(0,)]


async def test_a_batch_is_its_callers_own(cluster: Cluster) -> None:
    async with channel((await cluster.node()).target) as door:
        stub = Stubs.of(door).batches
        mine = batch_pb2.CreateBatchRequest(programs=programs(1), caller="alice", request_id="step-1")
        theirs = batch_pb2.CreateBatchRequest(programs=programs(2), caller="bob", request_id="step-1")
        made = (await stub.CreateBatch(mine)).batch
        assert (await stub.CreateBatch(theirs)).batch.id != made.id
        assert (await stub.CreateBatch(mine)).batch.id == made.id
        for caller in ("bob", ""):
            for call in (
                stub.GetBatch(batch_pb2.GetBatchRequest(id=made.id, caller=caller)),
                stub.CancelBatch(batch_pb2.CancelBatchRequest(id=made.id, caller=caller)),
                stub.DeleteBatch(batch_pb2.DeleteBatchRequest(id=made.id, caller=caller)),
            ):
                with pytest.raises(NotFound, match="no batch"), rpc_errors():
                    await call
            with pytest.raises(NotFound, match="no batch"), rpc_errors():
                async for _ in stub.WatchBatch(batch_pb2.WatchBatchRequest(id=made.id, caller=caller)):
                    pass
        seen = [reply async for reply in stub.WatchBatch(batch_pb2.WatchBatchRequest(id=made.id, caller="alice"))]
        assert sum(len(reply.items) for reply in seen) == 1
        listed = await stub.ListBatches(batch_pb2.ListBatchesRequest(caller="alice"))
        assert [batch.id for batch in listed.batches] == [made.id]
        with pytest.raises(InvalidArgument, match="caller"), rpc_errors():
            await stub.ListBatches(batch_pb2.ListBatchesRequest(caller="a\0"))


async def test_a_list_of_batches_and_their_end(cluster: Cluster) -> None:
    async with channel((await cluster.node()).target) as door:
        stub = Stubs.of(door).batches
        requests = [batch_pb2.CreateBatchRequest(programs=programs(1)) for _ in range(3)]
        made = [(await stub.CreateBatch(request)).batch.id for request in requests]
        for id in made:
            await watched(Stubs.of(door), id)
        first = await stub.ListBatches(batch_pb2.ListBatchesRequest(page_size=2))
        rest = await stub.ListBatches(batch_pb2.ListBatchesRequest(page_size=2, page_token=first.next_page_token))
        assert [batch.id for batch in (*first.batches, *rest.batches)] == made[::-1]
        await stub.DeleteBatch(batch_pb2.DeleteBatchRequest(id=made[0]))
        assert [batch.id for batch in (await stub.ListBatches(batch_pb2.ListBatchesRequest())).batches] == made[:0:-1]
        assert await cluster.rows("SELECT count(*) FROM sandbox_batch_records") == [(2,)]


async def test_programs_find_nothing_of_the_queue_and_the_database(cluster: Cluster) -> None:
    """The attacks that look for descriptors, environment, files and servers, on a node that has all of them."""
    attacks = ["environment", "open_descriptors", "write_to_all_descriptors", "local_services", "other_files"]
    async with channel((await cluster.node()).target) as door:
        stub = Stubs.of(door)
        id = (await stub.batches.CreateBatch(batch_pb2.CreateBatchRequest(programs=programs(40)))).batch.id
        check_all_ran(*await watched(stub, id), 40)
        found = [one async for one in stub.diagnostics.Audit(diagnostics_pb2.AuditRequest(attacks=attacks))]
        assert {one.attack.partition("/")[0] for one in found} == set(attacks)
        assert all(one.caught for one in found), found
        look = (
            "import os; print(sorted(os.environ), [f for f in range(3, 256) if os.path.exists(f'/proc/self/fd/{f}')])"
        )
        seen = (await stub.programs.Execute(pb.ExecuteRequest(program=pb.Program(source=look)))).execution.stdout
        assert "URL" not in seen


async def test_without_queue_and_database_the_rest_works(tmp_path: Path) -> None:
    for environment, missing in (
        ({}, "REDIS_URL and DATABASE_URL"),
        ({"REDIS_URL": "redis://127.0.0.1:1/0"}, "with DATABASE_URL"),
        ({"DATABASE_URL": f"sqlite:///{tmp_path}/x.db"}, "with REDIS_URL"),
    ):
        node = Node({"REDIS_URL": "", "DATABASE_URL": "", **environment}, tmp_path)
        try:
            await wait_healthy(node.target, timedelta(seconds=30))
            async with channel(node.target) as door:
                stub = Stubs.of(door)
                for call in (
                    stub.batches.CreateBatch(batch_pb2.CreateBatchRequest(programs=programs(1))),
                    stub.batches.GetBatch(batch_pb2.GetBatchRequest(id="x")),
                    stub.batches.CancelBatch(batch_pb2.CancelBatchRequest(id="x")),
                    watched(stub, "x"),
                ):
                    with pytest.raises(FailedPrecondition, match=missing), rpc_errors():
                        await call
                execution = (await stub.programs.Execute(pb.ExecuteRequest(program=programs(1)[0]))).execution
                assert execution.verdict == verdict_pb2.VERDICT_PASSED
        finally:
            node.end()


async def test_a_node_whose_stores_are_away_runs_programs(tmp_path: Path) -> None:
    away = {
        "REDIS_URL": f"redis://127.0.0.1:{free_port()}/0",
        "DATABASE_URL": f"postgresql://ratchet@127.0.0.1:{free_port()}/x",
    }
    node = Node(away, tmp_path)
    try:
        await wait_healthy(node.target, timedelta(seconds=30))
        async with channel(node.target) as door:
            with pytest.raises(Unavailable, match="database"), rpc_errors():
                await Stubs.of(door).batches.GetBatch(batch_pb2.GetBatchRequest(id="x"))
            execution = (await Stubs.of(door).programs.Execute(pb.ExecuteRequest(program=programs(1)[0]))).execution
            assert execution.verdict == verdict_pb2.VERDICT_PASSED
    finally:
        node.end()
