"""A gateway in memory: every part for real but what lies outside of it."""

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import httpx
import pytest

from gateway_service.adapters.memory import MemoryCompletionLog, MemoryKeyStore, MemoryReleaseStore
from gateway_service.adapters.scripted import ScriptedEngine, ScriptedGrader, ScriptedRegistry
from gateway_service.domain.completing import Completer, Router
from gateway_service.domain.completions import Answer, ChatPrompt, ChatTurn, CompletionRequest, Sampling
from gateway_service.domain.feedback import Feedback
from gateway_service.domain.keys import Doorkeeper, KeyRing
from gateway_service.domain.ports import GateResult
from gateway_service.domain.recording import Recorder
from gateway_service.domain.release_control import ControlOptions, ReleaseController
from gateway_service.domain.release_desk import ReleaseDesk
from gateway_service.domain.releases import Bounds, Release, ReleaseSpec, Stage
from gateway_service.domain.serving import Serving, ServingOptions
from gateway_service.domain.targets import CHAMPION, parse_target
from gateway_service.rest import app, resources
from gateway_service.servicer import GatewayServicer
from ratchet_testing import ManualClock

ADMIN_KEY = "rk_admin"
QUICK_STAGES = tuple(Stage(percent, timedelta(seconds=60), 30) for percent in (1, 5, 25, 50, 100))


async def ready() -> None:
    return None


@dataclass
class World:
    """Model "starter" with versions 1 to 3, of which 1 is the champion; gate "gate_2" lets 2 replace it."""

    clock: ManualClock
    engine: ScriptedEngine = field(default_factory=ScriptedEngine)
    registry: ScriptedRegistry = field(default_factory=ScriptedRegistry)
    grader: ScriptedGrader = field(default_factory=ScriptedGrader)
    releases: MemoryReleaseStore = field(default_factory=MemoryReleaseStore)
    completions: MemoryCompletionLog = field(default_factory=MemoryCompletionLog)
    keys: MemoryKeyStore = field(default_factory=MemoryKeyStore)
    options: ServingOptions = field(
        default_factory=lambda: ServingOptions(load_wait=timedelta(seconds=0.2), poll=timedelta(seconds=0.001))
    )

    def __post_init__(self) -> None:
        self.registry.versions["starter"] = 3
        self.registry.aliases["starter", CHAMPION] = 1
        self.registry.gates["gate_2"] = GateResult("gate_2", "starter", 2, 1, True, "0.2 better")
        self.start_gateway()

    def start_gateway(self) -> None:
        """Also: starts it again, with nothing but what was stored."""
        self.serving = Serving(self.engine, self.registry, self.clock, self.options)
        self.recorder = Recorder(self.completions, self.clock)
        self.router = Router(self.registry, self.releases, random.Random(7))
        self.completer = Completer(self.router, self.serving, self.recorder, self.clock)
        self.desk = ReleaseDesk(self.releases, self.completions, self.registry, self.clock, timedelta(milliseconds=1))
        self.feedback = Feedback(self.recorder, self.completions, self.grader)
        self.servicer = GatewayServicer(self.completer, self.desk, self.feedback)
        self.controller = self.new_controller()
        self.ring = KeyRing(self.keys, self.clock)

    def new_controller(self) -> ReleaseController:
        options = ControlOptions(prepare_timeout=timedelta(minutes=10), drain=timedelta(seconds=30))
        return ReleaseController(self.releases, self.completions, self.serving, self.registry, self.clock, options)

    def http(self, backends: resources.Backends | None = None, *, auth: bool = True) -> httpx.AsyncClient:
        application = app.build(
            completer=self.completer,
            router=self.router,
            registry=self.registry,
            ring=self.ring,
            doorkeeper=Doorkeeper(self.ring if auth else None),
            backends=backends or resources.Backends(_Nobody(), _Nobody(), _Nobody(), self.servicer),
            check_ready=ready,
            clock=self.clock,
        )
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"} if auth else {}
        transport = httpx.ASGITransport(application, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers)

    async def ask(self, model: str = "starter", text: str = "say hi", key: str = "") -> Answer:
        prompt = ChatPrompt((ChatTurn("user", text),))
        return await self.completer.complete(CompletionRequest(parse_target(model), prompt, Sampling(), key))

    async def release(
        self, stages: Sequence[Stage] = QUICK_STAGES, bounds: Bounds = Bounds(), candidate: int = 2
    ) -> Release:
        spec = ReleaseSpec("starter", candidate, f"gate_{candidate}", tuple(stages), bounds)
        return (await self.desk.create("", spec)).release

    async def tick(self) -> None:
        await self.recorder.flush()
        await self.controller.tick()

    async def until_progressing(self, release: Release) -> Release:
        """The candidate is loaded by the first tick, and found ready by the second."""
        for _ in range(3):
            await self.tick()
            await self.serving.ensure(release.candidate_ref)
        return await self.releases.get(release.id)


class _Nobody:
    """A peer that no test calls."""

    def __getattr__(self, name: str) -> object:
        return None


@pytest.fixture
async def world(clock: ManualClock) -> AsyncIterator[World]:
    world = World(clock)
    await world.ring.ensure_admin(ADMIN_KEY)
    yield world
    await world.serving.close()
