"""Samples of a file scored by a reward, as the trainer's jobs score completions."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ratchet_benchmarks
import ratchet_problems
import ratchet_rewards
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import AsyncClient, RatchetClientError
from ratchet_client.sample_files import FileSample, SampleFileError, read
from ratchet_environments import Task, judge
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.own import Sample
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_kit import client as grpc_client
from ratchet_kit.errors import NotFound
from ratchet_kit.faults import Faults
from ratchet_kit.names import RewardRef
from ratchet_problems import Problem
from ratchet_problems.extraction import program_of
from ratchet_quality.measuring import Measurer
from ratchet_reports.errors import ReportError
from ratchet_rewards import Registered, Reward
from ratchet_rewards.convert import from_proto


@dataclass(frozen=True, slots=True)
class Scored:
    """`reward` is None, and `values` are empty, where a reward of one's own gave no number."""

    problem_id: str
    index: int
    verdict: str
    values: Mapping[str, float]
    reward: float | None
    vetoed: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def score(spec: trainer_pb2.RewardSpec, file: Path, problems: str, step: int, target: str) -> list[Scored]:
    """Problem by problem, the samples of each taken for a group.

    Raises ReportError for a file or a set that cannot be read, InvalidArgument for a reward at fault or one that
    fails, Unavailable when the sandbox failed.
    """
    faults = Faults().under("reward")
    wanted = from_proto(spec, faults)
    lookup = asyncio.run(ratchet_rewards.look_up(wanted, _registered, _plugin))
    reward = ratchet_rewards.completed(wanted, lookup)
    ratchet_rewards.check(reward, faults, lookup)
    faults.raise_if_any()
    groups: dict[str, list[FileSample]] = {}
    try:
        for sample in read(file):
            groups.setdefault(sample.problem_id, []).append(sample)
    except (SampleFileError, OSError) as error:
        raise ReportError(f"The samples cannot be read: {error}.") from error
    known = {problem.id: problem for problem in _problems(problems)}
    if strange := [name for name in groups if name not in known]:
        raise ReportError(f"{problems} has no problem {strange[0]}.")
    return asyncio.run(_score(reward, [(known[name], group) for name, group in groups.items()], step, target))


def _problems(name: str) -> Sequence[Problem]:
    """A file's may have no tests, which nothing else takes."""
    return ratchet_problems.load(name) if name.endswith(".jsonl") else ratchet_benchmarks.load(name).problems


async def _registered(ref: RewardRef) -> Registered:
    """Raises NotFound, too, where no registry answers: what is misspelt is said without one."""
    try:
        async with AsyncClient() as client:
            reward = await client.rewards.get(ref.name, ref.number)
    except RatchetClientError as error:
        raise NotFound(str(error)) from error
    return Registered(RewardRef(reward.name, reward.number), reward.source)


async def _plugin(name: str) -> str:
    """Raises NotFound: what is beside the trainer, this command can't call."""
    raise NotFound(f"plugin:{name} runs only beside the trainer: try it by its package's test")


async def _score(
    reward: Reward, groups: Sequence[tuple[Problem, Sequence[FileSample]]], step: int, target: str
) -> list[Scored]:
    found: list[Scored] = []
    async with grpc_client.channel(target) as channel, Executor(GrpcSandbox(channel)) as executor:
        async with Measurer(reward, executor) as measurer:
            environment = CodeEnvironment(executor, forgeable=True)
            for problem, group in groups:
                samples = await asyncio.gather(*(_graded(environment, problem, one) for one in group))
                measured = await measurer.measure(Task.of(problem), samples)
                own = reward.of(problem.tags)
                rewards = iter(ratchet_rewards.rewards(own, [one for one in measured if one], step))
                for sample, graded, one in zip(group, samples, measured, strict=True):
                    values = one.values if one else {}
                    vetoed = one is not None and ratchet_rewards.is_vetoed(own, one)
                    earned = next(rewards) if one else None
                    found.append(Scored(problem.id, sample.index, graded.grade.verdict, values, earned, vetoed))
    return found


async def _graded(environment: CodeEnvironment, problem: Problem, sample: FileSample) -> Sample:
    task = Task.of(problem, is_program=sample.is_program)
    source = sample.text if sample.is_program else program_of(problem, sample.text)
    return Sample(sample.text, source, (await judge(environment, task, sample.text)).grade)
