"""Builds eval-service and runs it: `python -m eval_service.main`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import grpc

from eval_service.adapters.events import RedisEvents
from eval_service.adapters.meter import PrometheusMeter
from eval_service.adapters.policies import EnginePolicyHost
from eval_service.adapters.problems import LibraryProblems
from eval_service.adapters.registry import GrpcModelSource, GrpcRewardSource
from eval_service.adapters.sql import SqlEvaluationStore
from eval_service.adapters.sql_pairs import SqlPairStore
from eval_service.domain.evaluation import Evaluation
from eval_service.domain.evaluations import Evaluations
from eval_service.domain.measuring.draw import Drawer
from eval_service.domain.measuring.examine import Examiner
from eval_service.domain.measuring.judge import Judge
from eval_service.domain.measuring.load import Loader
from eval_service.domain.measuring.measurer import Measurer
from eval_service.domain.measuring.patience import Deadlines, Patience
from eval_service.domain.measuring.spent import Spent
from eval_service.domain.ports import (
    EvaluationStore,
    Meter,
    ModelSource,
    PairStore,
    PolicyHost,
    ProblemSource,
    RewardSource,
)
from eval_service.domain.preferences import Preferences
from eval_service.domain.spec import RewardJudge
from eval_service.servicer import EvalServicer, PreferenceServicer
from eval_service.settings import Settings
from eval_service.worker import EvaluationWork, Leftovers
from ratchet.eval.v1 import eval_pb2, eval_pb2_grpc, preference_pb2, preference_pb2_grpc
from ratchet_environments import Environment, EnvironmentSpec
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.named import environment_of
from ratchet_environments.rewarded import RewardedEnvironment
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_environments.workspaces import Workspaces
from ratchet_kit import client, server, streams
from ratchet_kit.allowed_sources import Places
from ratchet_kit.names import RewardRef
from ratchet_kit.queues import StreamQueue
from ratchet_kit.retention import Kept, tidy
from ratchet_kit.sql import Database
from ratchet_kit.times import Clock, SystemClock
from ratchet_kit.worker import Timing, Worker
from ratchet_policies.fleet import Fleet
from ratchet_problems import templates
from ratchet_problems.dataset_fetching import Datasets
from ratchet_rewards import Component

STREAM = "eval.evaluations"
SERVICE = "eval"
GROUP = "eval-workers"
JUDGED_TOGETHER = 256
"""Samples of an evaluation; where as many wait for their judgement, drawing waits."""
LOAD_TIMEOUT, GENERATE_TIMEOUT = timedelta(minutes=15), timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Service:
    """What is served, and what works beside it."""

    evaluations: Evaluations
    preferences: Preferences
    worker: Worker[Evaluation]
    leftovers: Leftovers
    tidy: server.Background

    @property
    def background(self) -> Sequence[server.Background]:
        return [self.worker.run, self.leftovers.run, self.tidy]

    def add_to(self, grpc_server: grpc.aio.Server) -> Sequence[str]:
        """Adds the servicers and returns their full names."""
        eval_pb2_grpc.add_EvalServiceServicer_to_server(EvalServicer(self.evaluations), grpc_server)
        preferences = PreferenceServicer(self.preferences)
        preference_pb2_grpc.add_PreferenceServiceServicer_to_server(preferences, grpc_server)
        files = {"EvalService": eval_pb2, "PreferenceService": preference_pb2}
        return [file.DESCRIPTOR.services_by_name[name].full_name for name, file in files.items()]


@asynccontextmanager
async def provision(
    settings: Settings,
    *,
    store: EvaluationStore | None = None,
    pairs: PairStore | None = None,
    problems: ProblemSource | None = None,
    models: ModelSource | None = None,
    rewards: RewardSource | None = None,
    host: PolicyHost | None = None,
    environments: Callable[[EnvironmentSpec | None], Environment] | None = None,
    meter: Meter | None = None,
    clock: Clock | None = None,
    timing: Timing | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[Service]:
    """Builds everything; a port that is handed in takes the place of the real one."""
    places = Places(settings.source_roots)
    clock, meter = clock or SystemClock(), meter or PrometheusMeter()
    async with AsyncExitStack() as stack:

        async def channel(target: str) -> grpc.aio.Channel:
            return await stack.enter_async_context(client.channel(target))

        if store is None or pairs is None:
            database = await stack.enter_async_context(Database.opened(settings.database_url, "eval_service"))
            store, pairs = store or SqlEvaluationStore(database), pairs or SqlPairStore(database)
        registry = await channel(settings.registry_target)
        models = models or GrpcModelSource(registry, places)
        if host is None:
            fleet = Fleet.of(settings.rollout_target, generate_timeout=GENERATE_TIMEOUT)
            workspaces = Workspaces(settings.sandbox_target, "eval")
            engine = await stack.enter_async_context(fleet)
            host = EnginePolicyHost(engine, LOAD_TIMEOUT, workspaces=workspaces, tool_servers=settings.tool_servers)
        sandbox = GrpcSandbox(await channel(settings.sandbox_target), caller="eval")
        executor = await stack.enter_async_context(Executor(sandbox))
        code = CodeEnvironment(executor, forgeable=True)
        environments = environments or (lambda spec: environment_of(spec, code))
        problems = problems or LibraryProblems(places, executor, Datasets(registry))

        redis = streams.connect(settings.redis_url)
        stack.push_async_callback(redis.aclose)
        name = settings.worker_name()
        queue = StreamQueue(streams.Stream(redis, STREAM, GROUP, name, lease=settings.lease))
        deadlines = Deadlines(settings.fault_patience, 2 * settings.fault_patience)
        measurer = Measurer(
            Loader(
                problems,
                store,
                partial(Patience, deadlines, meter, clock, sleep),
                lambda: Spent(clock.now(), settings.prices),
            ),
            Examiner(environments(None), JUDGED_TOGETHER),
            Drawer(host, clock),
            Judge(environments, meter, JUDGED_TOGETHER, rewarded=partial(_rewarded, executor)),
            clock,
        )
        events = RedisEvents(redis)
        work = EvaluationWork(name, store, measurer, meter, events, clock, settings.lease)
        timing = timing or Timing.of_lease(settings.lease)
        yield Service(
            Evaluations(
                store,
                queue,
                problems,
                models,
                rewards or GrpcRewardSource(registry),
                events,
                clock,
                lambda template: asyncio.to_thread(templates.examined, template, {}),
                prices=settings.prices,
                tool_servers=tuple(settings.tool_servers),
            ),
            Preferences(pairs, store, problems, clock),
            Worker(queue, work, clock, slots=settings.slots, timing=timing),
            Leftovers(store, host, events, clock, timing.reconcile, settings.fault_patience),
            partial(
                tidy,
                [
                    Kept("texts", settings.keep_texts, store.forget_texts),
                    Kept("unvoted pairs", settings.keep_unvoted_pairs, pairs.forget_unvoted),
                ],
                clock,
            ),
        )


def _rewarded(executor: Executor, inner: Environment, judge: RewardJudge) -> Environment:
    name = RewardRef.parse(judge.reward).name
    return RewardedEnvironment(inner, executor, Component(name, program=judge.program), judge.passing_score)


run = partial(server.run, SERVICE, provision)


def main() -> None:
    server.launch(SERVICE, Settings.read(), run)


if __name__ == "__main__":
    main()
