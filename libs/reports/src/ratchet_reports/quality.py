"""The quality of an evaluation's samples: samples from the API, problems by their set's name here."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import ratchet_benchmarks
from ratchet.common.v1 import verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_benchmarks import LoadedBenchmark
from ratchet_client import Client
from ratchet_environments import Task
from ratchet_environments.executor import Executor
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_kit import client as grpc_client
from ratchet_kit.errors import RatchetError
from ratchet_kit.statistics import wilson
from ratchet_problems import Problem
from ratchet_problems.extraction import program_of
from ratchet_problems.languages import PYTHON
from ratchet_quality import COMPONENTS, Score, efficiency
from ratchet_quality.reader import Reader
from ratchet_reports.document import QualityRow
from ratchet_reports.errors import ReportError

EFFICIENCY = "efficiency"
READ = tuple(COMPONENTS)
NAMES = (*READ, EFFICIENCY)
NORMAL_95 = 1.96
AT_A_TIME = 4
"""Programs whose CPU time is measured."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """`components`: of NAMES; `per_problem`: number of samples of a problem, the first that pass, or the first with
    `failed` ones too; `sandbox`: host:port, for efficiency."""

    components: Sequence[str]
    per_problem: int = 4
    failed: bool = False
    sandbox: str = ""


@dataclass(frozen=True, slots=True)
class SampleQuality:
    set_name: str
    problem_id: str
    index: int
    scores: Mapping[str, Score]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Item:
    sample: pb.Sample
    loaded: LoadedBenchmark
    problem: Problem
    source: str


def measure(
    client: Client, evaluation: pb.Evaluation, wanted: Wanted, progress: Callable[[int, int], None]
) -> list[SampleQuality]:
    """`progress` is called with the samples that are scored and all of them.

    Raises ReportError when the problems of a set are not here, ApiError; Unavailable when the sandbox failed.
    """
    items = list(_items(client, evaluation, wanted))
    reads = [name for name in wanted.components if name in READ]
    found: list[dict[str, Score]] = []
    with Reader(reads) as reader:
        for place, item in enumerate(items):
            can_read = reads and item.problem.language == PYTHON
            found.append(dict(reader.read(item.source, item.problem)) if can_read else {})
            progress(place + 1, len(items))
    if EFFICIENCY in wanted.components:
        for scores, score in zip(found, asyncio.run(_efficiencies(items, wanted.sandbox)), strict=True):
            scores |= {EFFICIENCY: score} if score else {}
    return [
        SampleQuality(item.loaded.name, item.problem.id, item.sample.index, scores)
        for item, scores in zip(items, found, strict=True)
    ]


def rows(evaluation_id: str, samples: Sequence[SampleQuality]) -> list[QualityRow]:
    """For each set, each component's mean over problems of the mean of a problem's samples."""
    made = []
    for name in dict.fromkeys(one.set_name for one in samples):
        own = [one for one in samples if one.set_name == name]
        components = dict.fromkeys(component for one in own for component in one.scores)
        means = {component: _means(own, component) for component in components}
        estimates = {
            component: wilson(sum(values) / len(values), len(values), NORMAL_95) for component, values in means.items()
        }
        made.append(QualityRow(evaluation_id, name, len(own), estimates))
    return made


def _means(samples: Sequence[SampleQuality], component: str) -> list[float]:
    by_problem: dict[str, list[float]] = {}
    for one in samples:
        if component in one.scores:
            by_problem.setdefault(one.problem_id, []).append(one.scores[component].value)
    return [sum(values) / len(values) for values in by_problem.values()]


def _items(client: Client, evaluation: pb.Evaluation, wanted: Wanted) -> Iterator[_Item]:
    loaded: dict[str, LoadedBenchmark] = {}
    problems: dict[str, dict[str, Problem]] = {}
    taken: dict[tuple[str, str], int] = {}
    for sample in client.evaluations.samples(evaluation.id):
        name = sample.benchmark or evaluation.spec.problems.name
        key = name, sample.problem_id
        passed = sample.verdict == verdict_pb2.VERDICT_PASSED
        if taken.get(key, 0) >= wanted.per_problem or not (passed or wanted.failed):
            continue
        taken[key] = taken.get(key, 0) + 1
        if name not in loaded:
            loaded[name] = _load(name)
            problems[name] = {problem.id: problem for problem in loaded[name].problems}
        if problem := problems[name].get(sample.problem_id):
            yield _Item(sample, loaded[name], problem, _source(evaluation, loaded[name], problem, sample.completion))


def _load(name: str) -> LoadedBenchmark:
    try:
        return ratchet_benchmarks.load(name)
    except RatchetError as error:
        raise ReportError(f"The problems of {name} cannot be read here: {error.message}.") from error


def _source(evaluation: pb.Evaluation, loaded: LoadedBenchmark, problem: Problem, completion: str) -> str:
    """The program that was judged. The API does not say of an imported sample whether it was a completion or a whole
    program; extraction reads both."""
    if evaluation.spec.prompting.form == pb.Prompting.FORM_COMPLETION and not evaluation.spec.imported_samples:
        return loaded.program(problem, completion)
    return program_of(problem, completion)


async def _efficiencies(items: Sequence[_Item], sandbox: str) -> list[Score | None]:
    """In order; None where the problem lets nothing be said."""
    room = asyncio.Semaphore(AT_A_TIME)

    async def one(executor: Executor, item: _Item) -> Score | None:
        task = Task.of(item.problem, runtime=item.loaded.runtime, limits=item.loaded.limits(item.problem))
        async with room:
            try:
                return await efficiency.measure(executor, task, item.source)
            except efficiency.NotMeasurable:
                return None

    async with grpc_client.channel(sandbox) as channel, Executor(GrpcSandbox(channel)) as executor:
        return list(await asyncio.gather(*(one(executor, item) for item in items)))
