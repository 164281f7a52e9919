"""The rollout service over scripted engines."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Literal

from ratchet_policies import Sampling, TokenPrompt
from ratchet_testing import ManualClock
from rollout_service.domain.generation import GenerationRequest
from rollout_service.domain.host import RestartLimits
from rollout_service.domain.policies import LoadPolicy, Policies
from rollout_service.domain.policy import EngineOptions, Policy, PolicyId, PolicyName, State
from rollout_service.domain.weights import Chunk, TensorHeader, WeightStream, WeightUpdate, WeightUpdateResult
from rollout_service.main import provision
from rollout_service.settings import Settings

from .memory import MemoryFolders, MemoryJournal, ScriptedEngine, ScriptedEngines, content_id

BASE = content_id(b"base")


P = PolicyName("p")


REQUEST = GenerationRequest(TokenPrompt((1, 2, 3)), Sampling(max_tokens=4))


class RecordingMeter:
    def __init__(self) -> None:
        self.tokens = self.updates = self.deaths = self.hangs = 0
        self.gone: list[PolicyName] = []
        self.evictions: list[PolicyName] = []
        self.sequences = 0
        self.draining = False

    def generated(self, policy: PolicyName, prompt_tokens: int, tokens: int, seconds: float) -> None:
        self.tokens += tokens

    def updated(self, result: WeightUpdateResult) -> None:
        self.updates += 1

    def busy(self, policy: PolicyName, sequences: int) -> None:
        self.sequences = sequences

    def drained(self, draining: bool) -> None:
        self.draining = draining

    def evicted(self, policy: PolicyName) -> None:
        self.evictions.append(policy)

    def engine_died(self, policy: PolicyName, hung: bool) -> None:
        self.deaths += 1
        self.hangs += hung

    def unloaded(self, policy: PolicyName) -> None:
        self.gone.append(policy)


class World:
    """The ports in memory, and the service over them."""

    policies: Policies

    def __init__(self, capacity: int = 2, device: Literal["cpu", "cuda"] = "cpu") -> None:
        self.settings = Settings(capacity=capacity, device=device)
        self.engines = ScriptedEngines()
        self.folders = MemoryFolders({"/base": BASE, "/other": content_id(b"other")})
        self.meter = RecordingMeter()
        self.journal = MemoryJournal()
        self.clock = ManualClock()
        self.gpu_use: dict[str, float] = {}

    @asynccontextmanager
    async def service(self) -> AsyncIterator[Policies]:
        """A service over these ports. A second one finds what the first left: it is the same service, restarted."""
        async with provision(
            self.settings,
            engines=self.engines,
            folders=self.folders,
            journal=self.journal,
            meter=self.meter,
            clock=self.clock,
            gpu_use=lambda names: {name: self.gpu_use[name] for name in names if name in self.gpu_use},
            limits=RestartLimits(
                deaths=3,
                healthy_after=timedelta(seconds=60),
                delay=timedelta(milliseconds=1),
                fetch=timedelta(seconds=0.5),
            ),
        ) as service:
            yield service.policies

    @property
    def engine(self) -> ScriptedEngine:
        return self.engines.started[-1]

    async def load(self, name: PolicyName = P, source: str = "/base", *, sleeps: bool = False) -> Policy:
        await self.policies.load(LoadPolicy(f"load-{name}-{source}", name, source, EngineOptions(sleeps=sleeps)))
        return await self.policies.settled(name)

    async def update(
        self, content: bytes, announced: PolicyId | None = None, base: PolicyId | None = None, interrupts: bool = False
    ) -> None:
        update = WeightUpdate(P, announced or content_id(content), step=1, base=base, interrupts=interrupts)
        await self.policies.update(update, weights(content))

    async def until(self, state: State) -> Policy:
        async with asyncio.timeout(2):
            while self.policies.get(P).state is not state:
                await asyncio.sleep(0.001)
        return self.policies.get(P)


async def weights(content: bytes) -> WeightStream:
    yield TensorHeader("w", "U8", (len(content),), "")
    yield Chunk(content)
