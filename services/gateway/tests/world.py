"""A gateway in memory: every part for real but the services and stores outside of it."""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import httpx

from gateway_service import main
from gateway_service.domain.completions.completion import CompletionRequest, CompletionResponse
from gateway_service.domain.keys.caller import set_caller
from gateway_service.domain.keys.identities import IdentityProvider
from gateway_service.domain.keys.key import ApiKey, Scope
from gateway_service.domain.keys.quotas import Ledger
from gateway_service.domain.ports import GateResult
from gateway_service.domain.releases.release import Bounds, Release, ReleaseSpec, Stage, Unproven
from gateway_service.domain.traffic.record import CompletionRecord
from gateway_service.settings import Settings
from gateway_service.wiring import Intervals, Peers, Stores
from ratchet_kit.names import CHAMPION, ModelRef, VersionRef
from ratchet_policies import ChatPrompt, Sampling
from ratchet_problems import Message
from ratchet_testing import ManualClock
from ratchet_testing.queue import MemoryQueue

from .doubles import (
    ScriptedDataSets,
    ScriptedEndpoints,
    ScriptedEngine,
    ScriptedFeed,
    ScriptedGrader,
    ScriptedNodes,
    ScriptedRegistry,
)
from .memory import MemoryAuditStore, MemoryCompletionLog, MemoryKeyStore, MemoryReleaseStore
from .memory_exchanges import MemoryExchangeStore
from .memory_experiments import MemoryExperimentStore
from .memory_webhooks import MemoryWebhookStore
from .memory_workflows import MemoryScheduleStore, MemoryWorkflowStore

ADMIN_KEY = "rk_admin_0123456789abcdef0123456789"
PEER_SERVICES = (
    "ratchet.trainer.v1.TrainerService",
    "ratchet.rollout.v1.RolloutService",
    "ratchet.eval.v1.EvalService",
    "ratchet.eval.v1.PreferenceService",
    "ratchet.registry.v1.RegistryService",
    "ratchet.registry.v1.DatasetService",
    "ratchet.sandbox.v1.BatchService",
    "ratchet.sandbox.v1.ProgramService",
)
QUICK_STAGES = tuple(Stage(percent, timedelta(seconds=60), 30) for percent in (1, 5, 25, 50, 100))
SETTINGS = Settings(
    admin_key=ADMIN_KEY,
    load_wait=timedelta(seconds=0.2),
    webhook_urls="https://hooks.example.com/ratchet, http://127.0.0.1:9000",
)

INTERVALS = Intervals(loading=timedelta(seconds=0.001), watching=timedelta(seconds=0.001))


async def ready() -> None:
    return None


class NoStub:
    """The stub of a peer that no test calls: it has every method, and none of them works."""

    def __getattr__(self, name: str) -> object:
        return None


class World:
    """Model "starter" with versions 1 to 3, of which 1 is the champion; gate "gate_2" lets 2 replace it."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.settings = SETTINGS
        self.engine = ScriptedEngine()
        self.nodes = ScriptedNodes()
        self.registry = ScriptedRegistry(
            versions={"starter": 3},
            aliases={("starter", CHAMPION): 1},
            gates={
                "gate_2": GateResult("gate_2", VersionRef("starter", 2), VersionRef("starter", 1), True, "0.2 better")
            },
        )
        self.grader = ScriptedGrader()
        self.sets = ScriptedDataSets()
        self.audit = MemoryAuditStore()
        self.webhooks = MemoryWebhookStore()
        self.endpoints = ScriptedEndpoints()
        self.feed = ScriptedFeed()
        self.experiments = MemoryExperimentStore(self.webhooks)
        self.releases = MemoryReleaseStore(self.webhooks, self.experiments)
        self.completions = MemoryCompletionLog(self.experiments)
        self.keys = MemoryKeyStore()
        self.workflows, self.schedules = MemoryWorkflowStore(), MemoryScheduleStore()
        self.queue = MemoryQueue()
        self.ledger: Ledger | None = None
        self.identities: IdentityProvider | None = None
        self.stubs: dict[str, object] = {service: NoStub() for service in PEER_SERVICES}
        self.gateway: main.Service
        self._running = AsyncExitStack()

    async def start(self) -> None:
        """Also starts it again, with nothing but what was stored."""
        await self.stop()
        self.gateway = await self._running.enter_async_context(self.another())

    async def stop(self) -> None:
        await self._running.aclose()

    @asynccontextmanager
    async def another(self) -> AsyncIterator[main.Service]:
        """One more gateway on the same stores and peers."""
        exchanges = MemoryExchangeStore(self.completions)
        stores = Stores(
            self.releases,
            self.experiments,
            self.completions,
            exchanges,
            self.keys,
            self.webhooks,
            self.audit,
            self.workflows,
            self.schedules,
            ready,
        )
        peers = Peers(
            self.engine,
            self.nodes,
            self.registry,
            self.grader,
            self.sets,
            {},
            self.stubs,
            self.endpoints,
            self.feed,
            self.queue,
            ledger=self.ledger,
            identities=self.identities,
        )
        async with main.provision(
            self.settings, stores=stores, peers=peers, clock=self.clock, chance=random.Random(7), intervals=INTERVALS
        ) as gateway:
            yield gateway

    def http(self) -> httpx.AsyncClient:
        """A client with the administrator's key."""
        transport = httpx.ASGITransport(self.gateway.http, raise_app_exceptions=False)
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        return httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers)

    async def ask(
        self, model: str = "starter", text: str = "say hi", key: str = "", session: str = ""
    ) -> CompletionResponse:
        prompt = ChatPrompt((Message("user", text),))
        return await self.gateway.completer.complete(
            CompletionRequest(ModelRef.parse_registered(model), prompt, Sampling(), key, session)
        )

    async def key(self, name: str = "app", keep_traffic: bool = True) -> ApiKey:
        """A new key for inference; who asks from now on is its holder."""
        made = await self.gateway.keys.create("", name, [Scope.INFERENCE], keep_traffic=keep_traffic)
        set_caller(made.key)
        return made.key

    async def records(self) -> list[CompletionRecord]:
        """All attempts so far, in their order."""
        await self.gateway.recorder.flush()
        return list(self.completions.records.values())

    async def release(
        self,
        stages: Sequence[Stage] = QUICK_STAGES,
        bounds: Bounds = Bounds(),
        candidate: int = 2,
        unproven: Unproven = Unproven.PROCEED,
        watch: timedelta = timedelta(0),
        baseline_percent: int = 5,
    ) -> Release:
        ref = VersionRef("starter", candidate)
        spec = ReleaseSpec(ref, f"gate_{candidate}", tuple(stages), bounds, unproven, watch, baseline_percent)
        return (await self.gateway.releases.create("", spec)).release

    async def tick(self) -> None:
        await self.gateway.recorder.flush()
        await self.gateway.controller.tick()

    async def until_progressing(self, release: Release) -> Release:
        """The candidate is loaded by the first tick, and found ready by the second."""
        for _ in range(3):
            await self.tick()
            await self.gateway.serving.ensure(release.candidate)
        return await self.releases.get(release.id)
