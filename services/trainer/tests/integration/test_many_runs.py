"""Several real runs of the starter on one Ray: verl, vLLM behind rollout-service, programs in sandbox-service. Minutes.

What they share is the cluster; by its policy ids a run that made room for another is compared with one that did not.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.common.v1 import model_pb2, priority_pb2, problem_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet.trainer.v1 import trainer_pb2_grpc
from ratchet_kit.client import channel, wait_healthy
from ratchet_testing.ports import free_port
from ratchet_testing.processes import process

from .test_ray import TRAINER_PYTHON, free_block

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

    async def create(self, name: str, priority: int = NORMAL, steps: int = 3, nodes: int = 1, seed: int = 0) -> str:
        hyper = pb.Hyperparameters(
            batch_size=4, group_size=4, max_prompt_tokens=64, max_response_tokens=72, warmup_steps=0
        )
        spec = pb.RunSpec(
            display_name=name,
            base=model_pb2.ModelRef(uri=str(STARTER)),
            algorithm=pb.ALGORITHM_GRPO,
            problems=problem_pb2.ProblemSetRef(name="composed/train"),
            validation_problems=problem_pb2.ProblemSetRef(name="composed/validation", limit=4),
            reward=pb.RewardSpec(name="tests_fraction"),
            steps=steps,
            checkpoint_every=2,
            resources=pb.Resources(nodes=nodes),
            seed=seed,
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
        low = await trainer.create("low", LOW, steps=STEPS, seed=7)
        beside = await trainer.create("beside", NORMAL, steps=STEPS, seed=1)
        for id in (low, beside):
            await trainer.until(id, lambda run: run.step >= 1)
        both = [await trainer.get(id) for id in (low, beside)]
        assert [run.state for run in both] == [pb.Run.STATE_RUNNING] * 2, "they share the cluster"

        high = await trainer.create("high", HIGH, steps=2)
        last = await trainer.create("last", LOW, steps=2)
        waiting = await trainer.until(high, lambda run: bool(run.waits_for))
        assert waiting.waits_for.startswith("one of the 2 places for runs")
        assert f"{low} will make room after this step" in waiting.waits_for
        stopped = await trainer.until(low, lambda run: run.state == pb.Run.STATE_QUEUED)
        assert (stopped.preempted_by, stopped.preemptions) == (high, 1)
        assert 1 <= stopped.step < STEPS
        assert stopped.notices[-1].message.startswith(f"pre-empted by {high}")

        await trainer.until(high, lambda run: run.state == pb.Run.STATE_RUNNING)
        assert (await trainer.get(low)).state == pb.Run.STATE_QUEUED
        assert (await trainer.get(beside)).preemptions == 0
        done = await trainer.done(high)
        assert (done.step, done.attempt) == (2, 1)
        assert (await trainer.get(last)).attempt == 0, "nobody overtakes who waits"
        done = await trainer.done(low)
        assert (done.step, done.attempt, done.preemptions) == (STEPS, 2, 1)
        steps = await trainer.steps(low)
        assert [step.attempt for step in steps] == [1] * stopped.step + [2] * (STEPS - stopped.step)
        made = [step.policy_id for step in steps]
        for id in (beside, last):
            assert (await trainer.done(id)).attempt == 1

        undisturbed = await trainer.create("undisturbed", LOW, steps=STEPS, seed=7)
        assert (await trainer.done(undisturbed)).attempt == 1
        assert await trainer.policy_ids(undisturbed) == made
