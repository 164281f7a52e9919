"""Several real runs of the starter on one Ray: verl, vLLM behind rollout-service, programs in sandbox-service. Minutes.

What they share is the cluster; by its policy ids a run that made room for another is compared with one that did not.
"""

import asyncio
import json
import os
import secrets
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from ratchet.common.v1 import model_pb2, priority_pb2, problem_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet.trainer.v1 import trainer_pb2_grpc
from ratchet_kit.client import channel, wait_healthy
from ratchet_kit.process import ProcessGroup
from ratchet_testing.ports import free_block, free_port
from ratchet_testing.processes import process

from .test_ray import TRAINER_PYTHON

ROOT = Path(__file__).parents[4]
ROLLOUT_PYTHON = ROOT / ".venvs/rollout/bin/python"
STARTER = ROOT / "models/starter"
LOW, NORMAL, HIGH = priority_pb2.PRIORITY_LOW, priority_pb2.PRIORITY_NORMAL, priority_pb2.PRIORITY_HIGH
PATIENCE = timedelta(minutes=20)
STEPS = 20

pytestmark = [
    pytest.mark.integration,
    pytest.mark.verl,
    pytest.mark.vllm,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        not TRAINER_PYTHON.exists() or not ROLLOUT_PYTHON.exists() or not STARTER.exists(),
        reason="needs the trainer and rollout environments, and the starter model",
    ),
]


@dataclass(frozen=True)
class Trainer:
    """A client of a trainer-service of its own."""

    stub: trainer_pb2_grpc.TrainerServiceStub
    folder: Path

    async def create(
        self,
        name: str,
        priority: int = NORMAL,
        steps: int = 3,
        nodes: int = 1,
        checkpoint_every: int | None = None,
        min_nodes: int | None = None,
    ) -> str:
        hyper = pb.Hyperparameters(
            batch_size=2, group_size=4, max_prompt_tokens=64, max_response_tokens=48, warmup_steps=0
        )
        spec = pb.RunSpec(
            display_name=name,
            base=model_pb2.ModelRef(uri=str(STARTER)),
            algorithm=pb.ALGORITHM_GRPO,
            problems=problem_pb2.ProblemSetRef(name="composed/train"),
            validation_problems=problem_pb2.ProblemSetRef(name="composed/validation", limit=4),
            reward=pb.RewardSpec(name="tests_fraction"),
            steps=steps,
            checkpoint_every=checkpoint_every,
            resources=pb.Resources(nodes=nodes, min_nodes=min_nodes),
            hyperparameters=hyper,
            priority=priority,
        )
        return (await self.stub.CreateRun(pb.CreateRunRequest(spec=spec), timeout=300)).run.id

    async def get(self, id: str) -> pb.Run:
        return (await self.stub.GetRun(pb.GetRunRequest(id=id))).run

    async def until(self, id: str, holds: Callable[[pb.Run], bool]) -> pb.Run:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while not holds(run := await self.get(id)):
                assert run.state not in (pb.Run.STATE_FAILED, pb.Run.STATE_CANCELLED), run.failure.message
                await asyncio.sleep(0.5)
            return run

    async def done(self, id: str) -> pb.Run:
        return await self.until(id, lambda run: run.state == pb.Run.STATE_SUCCEEDED)

    async def steps(self, id: str) -> list[pb.Step]:
        return list((await self.stub.ListSteps(pb.ListStepsRequest(run_id=id))).steps)

    async def cluster(self) -> pb.Cluster:
        return (await self.stub.GetCluster(pb.GetClusterRequest())).cluster

    async def policy_ids(self, id: str) -> list[str]:
        return [step.policy_id for step in await self.steps(id)]


@asynccontextmanager
async def trainers(folder: Path, redis_url: str, **settings: str) -> AsyncIterator[Trainer]:
    """Rollout, sandbox and trainer; `settings`: of the trainer."""
    async with AsyncExitStack() as stack:
        targets = {}
        for name, python in (("rollout", ROLLOUT_PYTHON), ("sandbox", sys.executable), ("trainer", TRAINER_PYTHON)):
            port = free_port()
            env = {
                "REDIS_URL": redis_url,
                "RATCHET_HOME": str(folder),
                "RATCHET_SOURCES": "/",
                f"RATCHET_{name.upper()}_PORT": str(port),
                f"RATCHET_{name.upper()}_METRICS_PORT": "0",
            }
            if name == "trainer":
                env |= {
                    "DATABASE_URL": f"sqlite:///{folder / 'trainer.db'}",
                    "RATCHET_TRAINER_RUNS_FOLDER": str(folder / "runs"),
                    "RATCHET_TRAINER_ROLLOUT_TARGET": targets["rollout"],
                    "RATCHET_TRAINER_SANDBOX_TARGET": targets["sandbox"],
                    "RATCHET_TRAINER_WORTH_PREEMPTING": "PT0S",
                    **settings,
                }
            log = folder / f"{name}.log"
            await stack.enter_async_context(process(log, str(python), "-m", f"{name}_service.main", **env))
            targets[name] = f"127.0.0.1:{port}"
        for target in targets.values():
            await wait_healthy(target, timedelta(minutes=5))
        door = await stack.enter_async_context(channel(targets["trainer"]))
        yield Trainer(trainer_pb2_grpc.TrainerServiceStub(door), folder)


async def test_a_run_makes_room_for_a_higher_one_and_ends_as_if_it_had_not(
    tmp_path: Path, redis_url: str, redis: object
) -> None:
    own = {"RATCHET_TRAINER_CONCURRENCY": "2", "RATCHET_TRAINER_RAY_PORT": str(free_block(9))}
    async with trainers(tmp_path, redis_url, **own) as trainer:
        # The same run twice, side by side on one cluster.
        low = await trainer.create("low", LOW, STEPS)
        undisturbed = await trainer.create("undisturbed", NORMAL, STEPS)
        for id in (low, undisturbed):
            await trainer.until(id, lambda run: run.step >= 1)
        together = [(await trainer.get(id)).state for id in (low, undisturbed)]
        assert together == [pb.Run.STATE_RUNNING] * 2

        high = await trainer.create("high", HIGH, steps=2)
        waiting = await trainer.until(high, lambda run: bool(run.waits_for))
        assert waiting.waits_for.startswith("one of the 2 places for runs")
        stopped = await trainer.until(low, lambda run: run.state == pb.Run.STATE_QUEUED)
        assert (stopped.preempted_by, stopped.preemptions, 1 <= stopped.step < STEPS) == (high, 1, True)
        assert stopped.notices[-1].message.startswith(f"pre-empted by {high}")
        await trainer.until(high, lambda run: run.state == pb.Run.STATE_RUNNING)
        began_again = (await trainer.get(low)).attempt > 1
        assert not began_again or (await trainer.get(undisturbed)).state == pb.Run.STATE_SUCCEEDED, "two places"

        for id, steps, attempts in ((high, 2, 1), (undisturbed, STEPS, 1), (low, STEPS, 2)):
            done = await trainer.done(id)
            assert (done.step, done.attempt) == (steps, attempts)
        by_attempt = [step.attempt for step in await trainer.steps(low)]
        assert by_attempt == [1] * stopped.step + [2] * (STEPS - stopped.step), "no step was done twice"
        assert await trainer.policy_ids(low) == await trainer.policy_ids(undisturbed)


class RayNode:
    """A node of a Ray cluster on this machine: one training rank, at its own address of the loopback."""

    def __init__(self, folder: Path, address: str, *arguments: str, without: Sequence[Path] = ()) -> None:
        """`without`: folders that are empty on this node, whatever other nodes have there."""
        first = free_block(len(RAY_PORTS))  # one that Ray chooses it waits 15 s for, which is too short
        ports = [f"--{name}-port={first + number}" for number, name in enumerate(RAY_PORTS)]
        self._log = folder / f"ray-{address}.log"
        self._command = (
            *_hiding(without),
            *(str(TRAINER_PYTHON), "-c", RAY_START, "start", "--block", f"--node-ip-address={address}"),
            *("--num-cpus=16", "--num-gpus=1", "--object-store-memory=200000000", "--disable-usage-stats"),
            *("--min-worker-port=0", "--max-worker-port=0", *ports, *arguments),
        )

    @asynccontextmanager
    async def running(self, **environment: str) -> AsyncIterator[ProcessGroup]:
        # Ray's export of metrics may take a whole core where a token is asked for.
        left_out = ("enable_worker_prestart", "prestart_worker_first_driver", "enable_metrics_collection")
        quiet = {f"RAY_{name}": "0" for name in left_out}
        patient = {"RAY_worker_register_timeout_seconds": "300"}
        here = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1", "GLOO_SOCKET_IFNAME": "lo"}
        guarded = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
        async with process(self._log, *self._command, **quiet, **patient, **here, **guarded, **environment) as group:
            yield group


def _hiding(folders: Sequence[Path]) -> Sequence[str]:
    """The beginning of a command in a mount namespace of its own."""
    if not folders:
        return ()
    mounts = "; ".join(f"mount -t tmpfs none {shlex.quote(str(one))}" for one in folders)
    return (
        "unshare",
        *(() if os.getuid() == 0 else ("--map-root-user",)),
        "--mount",
        "sh",
        "-ec",
        f'{mounts}; exec "$@"',
        "sh",
    )


TOKEN = secrets.token_urlsafe()
RAY_PORTS = (
    *("node-manager", "object-manager", "runtime-env-agent", "metrics-export"),
    *("dashboard-agent-listen", "dashboard-agent-grpc"),
)
RAY_START = """
from trainer_service.verl import ray_start
ray_start.MODULES += ",StateHead"
ray_start.start_lean()
ray_start.wait_longer()
from ray.scripts.scripts import main
main()
"""
"""As the service starts its own, with the part of the dashboard that says which nodes there are."""


async def test_a_lost_node_that_shares_no_folder_costs_one_attempt(
    tmp_path: Path, redis_url: str, redis: object
) -> None:
    port = free_block(3)
    dashboard = f"http://127.0.0.1:{port + 1}"
    head = RayNode(
        tmp_path,
        "127.0.0.2",
        *("--head", f"--port={port}", f"--dashboard-port={port + 1}", "--dashboard-host=127.0.0.1"),
        f"--ray-client-server-port={port + 2}",
        *("--include-dashboard=true", "--no-monitor", f"--temp-dir={tmp_path.parent / 'ray'}"),
    )
    runs = tmp_path / "runs"
    runs.mkdir()
    node = RayNode(tmp_path, "127.0.0.3", f"--address=127.0.0.2:{port}", without=[runs, STARTER])
    cluster = {
        "RAY_ADDRESS": dashboard,
        "RATCHET_TRAINER_RAY_TOKEN": TOKEN,
        "RATCHET_TRAINER_JOB_PYTHON": str(TRAINER_PYTHON),
    }
    async with head.running(), trainers(tmp_path, redis_url, **cluster) as trainer:
        await has_nodes(dashboard, 1)
        id = await trainer.create("on two nodes", steps=6, nodes=2, checkpoint_every=1)
        waiting = await trainer.until(id, lambda run: bool(run.waits_for))
        assert waiting.waits_for == (
            "a larger cluster, or a node to come back: it needs 2 nodes with 1 accelerator each: 1 of 1 are free"
        )
        async with node.running() as lost:
            await trainer.until(id, lambda run: run.step >= 2)
            raylets = [one for one in psutil.Process(lost.pid).children(recursive=True) if one.name() == "raylet"]
            assert len(raylets) == 1
            os.kill(raylets[0].pid, signal.SIGKILL)
            waiting = await trainer.until(id, lambda run: run.state == pb.Run.STATE_QUEUED and bool(run.waits_for))
            assert waiting.waits_for.startswith("a larger cluster, or a node")
            # Until Ray says that the node is gone a job may be submitted that finds no room, which is excused.
            found_none = [notice for notice in waiting.notices if "no room on the cluster" in notice.message]
            assert waiting.attempt == 1 + len(found_none)
            [complete] = runs.glob(f"{id}/checkpoints/*/*/COMPLETE")
            saved = {file.name for file in (complete.parent / "actor" / "state").iterdir()}
            assert {".metadata", "__0_0.distcp", "__1_0.distcp"} <= saved, "the lost node's shards are here"
        async with node.running():
            done = await trainer.done(id)
        assert (done.step, done.attempt) == (6, waiting.attempt + 1)
        assert [step.number for step in await trainer.steps(id)] == list(range(1, 7)), "no step was done twice"


async def test_a_cluster_grows_for_a_run_and_outlives_a_node_that_is_told_to_end(
    tmp_path: Path, redis_url: str, redis: object
) -> None:
    """Ray's own autoscaler, and its own provider of nodes on one machine."""
    port = free_block(3)
    dashboard = f"http://127.0.0.1:{port + 1}"
    config = tmp_path / "autoscaler.json"
    config.write_text(json.dumps(autoscaling(f"127.0.0.2:{port}", most=2)))
    head = RayNode(
        tmp_path,
        "127.0.0.2",
        *("--head", f"--port={port}", f"--dashboard-port={port + 1}", "--dashboard-host=127.0.0.1"),
        *(f"--ray-client-server-port={port + 2}", "--include-dashboard=true", f"--autoscaling-config={config}"),
        *(f"--temp-dir={tmp_path.parent / 'ray'}", "--num-gpus=0"),
    )
    cluster = {
        "RAY_ADDRESS": dashboard,
        "RATCHET_TRAINER_RAY_TOKEN": TOKEN,
        "RATCHET_TRAINER_JOB_PYTHON": str(TRAINER_PYTHON),
    }
    fake = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1", "AUTOSCALER_HEARTBEAT_TIMEOUT_S": "300"}
    async with head.running(**fake), trainers(tmp_path, redis_url, **cluster) as trainer:
        await has_nodes(dashboard, 1)
        id = await trainer.create("on two nodes", steps=45, nodes=2, min_nodes=1)
        await has_nodes(dashboard, 3)
        await trainer.until(id, lambda run: run.step >= 2)
        held = {node.id: list(node.run_ids) for node in (await trainer.cluster()).machines if node.run_ids}
        assert list(held.values()) == [[id]] * 2

        # As a spot node's notice does: `ray drain-node`.
        ended = sorted(held)[0]
        await drain(f"127.0.0.2:{port}", ended)
        again = await trainer.until(id, lambda run: run.attempt == 2)
        assert "is about to end: step" in again.notices[-1].message
        assert again.notices[-1].step == again.step >= 2
        done = await trainer.done(id)
        assert (done.step, done.attempt) == (45, 2)
        assert [step.number for step in await trainer.steps(id)] == list(range(1, 46)), "no step was done twice"
        await has_nodes(dashboard, 1)
        assert [list(node.run_ids) for node in (await trainer.cluster()).machines] == [[]]


def autoscaling(head: str, most: int) -> dict[str, Any]:
    """A cluster of no nodes but its head at first, each of one rank, that end when they are idle for some seconds."""
    fake = ("launch_multiple", "use_node_id_as_ip", "disable_node_updaters", "disable_launch_config_check")
    commands = ("initialization", "setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray")
    node = {"resources": {"CPU": 16, "GPU": 1, "object_store_memory": 200_000_000}, "node_config": {}}
    return {
        "cluster_name": "fake",
        "max_workers": most,
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": 0.5,
        "provider": {"type": "fake_multinode", "gcs_address": head, **dict.fromkeys(fake, True)},
        "available_node_types": {
            "ray.head.default": {"resources": {}, "node_config": {}, "max_workers": 0},
            "spot": {**node, "min_workers": 0, "max_workers": most},
        },
        "head_node_type": "ray.head.default",
        "auth": {"ssh_user": "nobody"},
        **{name: {} for name in ("docker", "file_mounts")},
        **{f"{name}_commands": [] for name in commands},
        **{name: [] for name in ("cluster_synced_files", "rsync_exclude", "rsync_filter")},
        "file_mounts_sync_continuously": False,
    }


async def drain(head: str, node: str) -> None:
    ray = str(TRAINER_PYTHON.with_name("ray"))
    reason = ("--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "spot")
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    command = ("drain-node", "--address", head, "--node-id", node, *reason, "--deadline-remaining-seconds", "120")
    ended = await asyncio.create_subprocess_exec(ray, *command, env=os.environ | token)
    assert await ended.wait() == 0


async def has_nodes(dashboard: str, number: int) -> None:
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as client, asyncio.timeout(300):
        while True:
            try:
                reply = await client.get(f"{dashboard}/api/v0/nodes")
                if reply.is_success and reply.text.count("ALIVE") == number:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(1)
