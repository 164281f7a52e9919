from dataclasses import dataclass, field
from typing import Any

from ratchet_kit.errors import Unavailable
from ratchet_policies import Policy, PolicyState
from trainer_service.adapters.rollout import RolloutPolicyHost
from trainer_service.domain.run import RunId


@dataclass
class Engine:
    names: list[str]
    down: bool = False
    unloaded: list[str] = field(default_factory=list)

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
