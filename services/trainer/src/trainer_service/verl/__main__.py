"""`python -m trainer_service.verl`: one attempt of one run, as the environment variable RATCHET_JOB describes it.

Exit status: 0 when the run has all its steps, was cancelled or taken over, or makes room for another; 1 when it failed
for a reason that every attempt would meet, after a report of it to the service; 77 (OUT_OF_MEMORY) when memory was too
little, 76 (NO_ROOM) when the cluster was, or a machine of the job is about to end; 75 (EX_TEMPFAIL) for any other: a
process or a service that was lost, a full disk. Where it has reported no end, the service starts the next attempt.
"""

import asyncio
import contextlib
import os
import signal
import threading
import time
from dataclasses import replace
from functools import partial

import grpc

from ratchet_environments import EnvironmentSpec
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.named import environment_of
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_environments.workspaces import Workspaces
from ratchet_episodes import harness_of
from ratchet_kit import client, logs
from ratchet_kit.retry import patiently
from ratchet_problems.dataset_fetching import Datasets
from ratchet_problems.sets import dataset_of
from ratchet_quality.measuring import Measurer
from ratchet_quality.preference import Scorer
from trainer_service.domain.spec.plugins import PluginKind
from trainer_service.job.plugins.process import PluginProcess
from trainer_service.job.policy.policy import RunPolicy, rollouts
from trainer_service.job.policy.transport import size_of_weights
from trainer_service.job.reward.rewarding import Overlong, Rewarding
from trainer_service.job.reward.second_hand import SecondHand
from trainer_service.job.run.background import Background
from trainer_service.job.run.checkpoints import Checkpoints
from trainer_service.job.run.config import NO_ROOM, OUT_OF_MEMORY, JobConfig
from trainer_service.job.run.report import Reporter, Stopped
from trainer_service.job.run.schedule import Schedule
from trainer_service.job.samples.folders import FolderPlayer, Tasks
from trainer_service.job.samples.replies import Replies
from trainer_service.job.session import Session
from trainer_service.job.usage import UsageMeter
from trainer_service.verl import engine

# Waits double from 0.2 s: a sandbox that is away for 25 s costs no sample.
GRADING_ATTEMPTS = 8

LOST = os.EX_TEMPFAIL
LAST_S = 30.0
"""What a job that is no longer wanted gets to end by itself, in seconds."""

log = logs.get_logger(__name__)


def main() -> int:
    started = time.monotonic()
    job = JobConfig.from_env()
    logs.configure("trainer-job")
    logs.bind(run_id=job.run_id, attempt=job.attempt)
    engine.set_environment(job)
    job.work_dir.mkdir(parents=True, exist_ok=True)
    os.chdir(job.work_dir)
    # The weights and two moments of Adam, or adapters; and the model that is exported.
    copies = 2 if job.spec.hyperparameters.lora_rank else 4
    first_bytes = copies * size_of_weights(job.base_path)
    checkpoints = Checkpoints(job.work_dir, job.attempt, job.export_uri, first_bytes)
    latest = asyncio.run(patiently(partial(asyncio.to_thread, checkpoints.resume), job.patience, "checkpoints"))
    schedule = Schedule.of(job.spec, latest.tokens if latest else 0, job.spent)
    unfinished = latest is None or (latest.step < schedule.steps and not schedule.is_spent)
    if unfinished:
        # First of all: a local Ray is forked off, which a process with gRPC's threads must not do.
        engine.connect(job)
    scorer = engine.reward_model(job)
    with Background() as background, contextlib.ExitStack() as stack:
        clients = contextlib.AsyncExitStack()
        stack.callback(lambda: background.wait(clients.aclose()))
        reporter = background.wait(_reporter(job, background, clients))
        try:
            session = background.wait(_open(job, background, clients, checkpoints, schedule, scorer, reporter))
            reporter.started()
            background.start(reporter.beat(_end))
            if unfinished:
                if scorer:
                    scorer.load()
                engine.train(session)
            reporter.finished()
        except Stopped as error:
            log.info("job.stopped", reason=str(error))
            return 0
        except Exception as error:
            failure = engine.failure_of(error)
            if memory_was_short := engine.ran_out_of_memory(error):
                failure = replace(failure, message=f"out of memory: {failure.message}")
            if engine.is_without_room(error):
                log.error("job.lost", reason=failure.message)
                return NO_ROOM
            passes = memory_was_short or engine.lost_a_node()
            if passes or not engine.is_final(error, reporter.has_stepped):
                log.exception("job.failed")
                log.error("job.lost", reason=failure.message)  # which the service reads
                return OUT_OF_MEMORY if memory_was_short else LOST
            log.exception("run.failed")
            reporter.finished(failure)
            return 1
    log.info("run.finished", seconds=round(time.monotonic() - started, 1))
    return 0


def _end(reason: str) -> None:
    """Ends this process as Ray would stop it: with what it started, in whatever it is."""
    log.info("job.stopped", reason=reason)
    last = threading.Timer(LAST_S, os._exit, [LOST])
    last.daemon = True
    last.start()
    os.kill(os.getpid(), signal.SIGTERM)


async def _reporter(job: JobConfig, background: Background, clients: contextlib.AsyncExitStack) -> Reporter:
    target = await clients.enter_async_context(client.channel(job.trainer_target))
    return Reporter(background, target, job.run_id, job.attempt, job.patience)


async def _open(
    job: JobConfig,
    background: Background,
    clients: contextlib.AsyncExitStack,
    checkpoints: Checkpoints,
    schedule: Schedule,
    scorer: Scorer | None,
    reporter: Reporter,
) -> Session:
    """Runs on the background loop, since grpc.aio binds a channel to the loop that it is made on."""

    async def channel(target: str) -> grpc.aio.Channel:
        return await clients.enter_async_context(client.channel(target))

    datasets = Datasets(await channel(job.registry_target))
    on_folders = job.spec.environment is not None and job.spec.environment.on_folders
    fetch = datasets.fetch_tasks if on_folders else datasets.fetch
    for ref in (job.spec.problems, job.spec.validation_problems):
        if ref is not None and (dataset := dataset_of(ref.name)) is not None:
            await fetch(dataset)  # this node may not be the service's
    await datasets.forget()  # what an earlier job left here
    for ref in (job.spec.pairs, job.spec.validation_pairs):
        if ref is not None and (dataset := dataset_of(ref.name)) is not None:
            await datasets.fetch_pairs(dataset)
    sandbox = GrpcSandbox(await channel(job.sandbox_target), caller=f"trainer/{job.run_id}")
    executor = await clients.enter_async_context(Executor(sandbox, attempts=GRADING_ATTEMPTS, equal_once=True))
    plugins = {
        one.plugin: clients.enter_context(PluginProcess(PluginKind.REWARD, one.plugin, one.digest))
        for one in job.spec.reward.components
        if one.plugin
    }
    replies = None
    if (wanted := job.spec.environment) and wanted.plugin:
        call = clients.enter_context(PluginProcess(PluginKind.ENVIRONMENT, wanted.plugin, wanted.digest))
        replies = clients.enter_context(Replies(wanted.plugin, call))
    code = CodeEnvironment(executor, forgeable=job.spec.forgeable_rewards)
    unrewarded = job.spec.hyperparameters.unrewarded_tests
    measurer = await clients.enter_async_context(Measurer(job.spec.reward, executor, plugins, scorer))
    policy = RunPolicy.of(job, await clients.enter_async_context(rollouts(job)))
    workspaces = Workspaces(job.sandbox_target, f"trainer/{job.run_id}")
    ranks = job.spec.resources.ranks if job.is_cuda else 0
    usage = UsageMeter(job.usage_folder, policy, executor, workspaces, ranks, job.prices)
    reporter.usage = usage
    return Session(
        job=job,
        schedule=schedule,
        background=background,
        reporter=reporter,
        policy=policy,
        environment=environment_of(None if on_folders else job.spec.environment, code, replies),
        rewarding=Rewarding(
            job.spec.reward, measurer, job.spec.thresholds.reward_limit, Overlong.of(job.spec.hyperparameters)
        ),
        checkpoints=checkpoints,
        datasets=datasets,
        usage=usage,
        second_hand=SecondHand(code, unrewarded) if unrewarded else None,
        ending_node=engine.ending_node,
        folders=_folders(job, job.spec.environment, workspaces) if job.spec.environment and on_folders else None,
    )


def _folders(job: JobConfig, environment: EnvironmentSpec, workspaces: Workspaces) -> FolderPlayer:
    tasks = Tasks()
    for ref in (job.spec.problems, job.spec.validation_problems):
        if ref is not None:
            tasks.add(ref.name)
    forgeable = job.spec.forgeable_rewards
    return FolderPlayer(workspaces, tasks, harness_of(environment, job.tool_servers), job.patience, forgeable=forgeable)


if __name__ == "__main__":
    engine.leave(main())
