"""Builds eval-service and runs it: `python -m eval_service.main`."""

import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack

import grpc

from eval_service.adapters.grading import SandboxGrading
from eval_service.adapters.meter import PrometheusMeter
from eval_service.adapters.problems import LibraryProblems
from eval_service.adapters.registry import GrpcModelSource
from eval_service.adapters.rollout import GrpcPolicyHost
from eval_service.adapters.sql import SqlEvaluationStore
from eval_service.domain.evaluations import Evaluations
from eval_service.domain.measuring import Measurer, Patience
from eval_service.servicer import EvalServicer
from eval_service.settings import Settings
from eval_service.worker import StreamQueue, Timing, Worker
from ratchet.eval.v1 import eval_pb2, eval_pb2_grpc
from ratchet_kit import client, server, sql, streams
from ratchet_kit.ids import new_id
from ratchet_kit.times import SystemClock
from ratchet_rewards import Grader, GrpcSandbox

SERVICE = eval_pb2.DESCRIPTOR.services_by_name["EvalService"].full_name
STREAM = "eval.evaluations"
GROUP = "eval-workers"


async def run(settings: Settings) -> None:
    await sql.migrate(settings.database_url, "eval_service")
    async with AsyncExitStack() as stack:
        engine = sql.create_engine(settings.database_url)
        stack.push_async_callback(engine.dispose)
        redis = streams.connect(settings.redis_url)
        stack.push_async_callback(redis.aclose)
        rollout = await stack.enter_async_context(client.channel(settings.rollout_target))
        sandbox = await stack.enter_async_context(client.channel(settings.sandbox_target))
        registry = await stack.enter_async_context(client.channel(settings.registry_target))
        grader = await stack.enter_async_context(Grader(GrpcSandbox(sandbox)))

        # Whoever listens on this port of this host is the only one; a free port says nothing of that kind.
        name = f"{socket.gethostname()}:{settings.port}" if settings.port else new_id("worker")
        stream = streams.Stream(redis, STREAM, GROUP, name, lease=settings.lease)
        queue = StreamQueue(stream)
        store, problems, clock, meter = SqlEvaluationStore(engine), LibraryProblems(), SystemClock(), PrometheusMeter()
        host = GrpcPolicyHost(rollout, settings.load_timeout, settings.generate_timeout)
        evaluations = Evaluations(store, queue, problems, GrpcModelSource(registry), clock)
        patience = Patience(settings.fault_patience, settings.room_patience)
        measurer = Measurer(store, problems, host, SandboxGrading(grader), meter, clock, settings.concurrency, patience)
        timing = Timing(settings.lease, settings.lease / 10, settings.reconcile_interval)
        worker = Worker(name, stream, queue, store, host, measurer, meter, clock, settings.slots, timing)

        def add(to: grpc.aio.Server) -> Sequence[str]:
            eval_pb2_grpc.add_EvalServiceServicer_to_server(EvalServicer(evaluations), to)
            return [SERVICE]

        await server.serve(settings, "eval", add, background=[worker.run])


def main() -> None:
    server.launch("eval", Settings(), run)


if __name__ == "__main__":
    main()
