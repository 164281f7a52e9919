from dataclasses import dataclass, field
from typing import Any

from ratchet_kit.errors import Unavailable
from ratchet_policies import Policy, PolicyState, Purpose
from ratchet_policies.node import Engine as Loaded
from ratchet_policies.node import Node, NodeState
from trainer_service.adapters.rollout import RolloutPolicyHost
from trainer_service.domain.run.run import RunId


@dataclass
class Engine:
    names: list[str]
    down: bool = False
    unloaded: list[str] = field(default_factory=list)

    on: tuple[Node, ...] = ()

    def nodes(self) -> tuple[Node, ...]:
        return self.on

    async def all(self) -> list[Policy]:
        if self.down:
            raise Unavailable("rollout-service is away")
        return [Policy(name, PolicyState.READY) for name in self.names]

    async def unload(self, name: str) -> None:
        self.unloaded.append(name)


async def release(engine: Any, attempt: int) -> list[str]:
    await RolloutPolicyHost(engine).release(RunId("run_1"), attempt)
    return list(engine.unloaded)


async def test_what_an_attempt_and_those_before_left_is_unloaded() -> None:
    names = ["run-run_1-1", "run-run_1-2", "run-run_1-3", "run-run_1-21", "run-run_2-1", "starter@1"]
    assert await release(Engine(names), 2) == ["run-run_1-1", "run-run_1-2"]


async def test_a_service_that_is_away_is_no_error() -> None:
    assert await release(Engine(["run-run_1-1"], down=True), 2) == []


def test_places_are_those_that_runs_have_and_those_that_are_free_for_them() -> None:
    training = Loaded("run-run_1-1", PolicyState.READY, purpose=Purpose.TRAINING)
    serving = Loaded("starter@1", PolicyState.READY, purpose=Purpose.SERVING)
    busy = Node("a:1", engines=(training, serving), free={Purpose.TRAINING: 2, Purpose.SERVING: 1})
    away = Node("b:1", NodeState.AWAY, free={Purpose.TRAINING: 4})
    assert RolloutPolicyHost(Engine([], on=(busy, away))).places() == [3]
    assert RolloutPolicyHost(Engine([], on=(away,))).places() is None


def test_nodes_on_one_gpu_take_its_memory_together() -> None:
    nodes = (Node("a:1", gpu_memory={"GPU-a": 30, "GPU-b": 50}), Node("a:2", gpu_memory={"GPU-a": 20}), Node("b:1"))
    assert RolloutPolicyHost(Engine([], on=nodes)).gpu_memory() == {"GPU-a": 50, "GPU-b": 50}
