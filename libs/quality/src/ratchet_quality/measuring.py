"""Measures what a reward is made of: completions that were graded become values of its components.

    async with Measurer(reward, executor) as measurer:
        measured = await measurer.measure(task, samples)     # of one prompt
        ratchet_rewards.rewards(reward.of(task.problem.tags), measured, step)

What reads programs runs in processes of its own (`reader`), what runs them in the sandbox: nothing of a completion is
parsed or run in the caller's process, and its event loop waits for none of it.
"""

import asyncio
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Self

from ratchet_environments import Task, own
from ratchet_environments.executor import Executor
from ratchet_environments.own import Sample
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import Problem
from ratchet_problems.languages import PYTHON
from ratchet_quality import preference
from ratchet_quality.components import READABLE
from ratchet_quality.efficiency import NotMeasurable, compare, cpu_time
from ratchet_quality.preference import Scorer
from ratchet_quality.reader import Reader
from ratchet_quality.score import reference
from ratchet_rewards import TAMPERED, Component, Grade, Measured, Reward

READERS = 2
"""Processes that read."""
RUNS = 3
"""Runs of a reference, whose CPU time is their median."""


class Measurer:
    """Measures one complete reward. One event loop; any number of concurrent calls. `executor` stays the caller's."""

    def __init__(
        self,
        reward: Reward,
        executor: Executor,
        plugins: Mapping[str, Callable[..., object]] | None = None,
        scorer: Scorer | None = None,
    ) -> None:
        """`plugins`: the functions of those components that are some, by name, called in the threads of readers.
        `scorer`: of `preference`. Raises InvalidArgument where the reward has that, and there is no scorer."""
        self._plugins = plugins or {}
        self._scorer = scorer
        self._preference = next((one for one in reward.components if one.name == preference.NAME), None)
        if self._preference and scorer is None:
            raise InvalidArgument("preference is scored in the trainer's jobs only, which load its model: leave it out")
        self._reward = reward
        self._executor = executor
        self._read = {
            component.name: component.parameters
            for component in reward.components
            if not component.is_own and component.name in READABLE
        }
        self._own = [component for component in reward.components if component.is_own]
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="ratchet-reader")
        self._of_thread = threading.local()
        self._readers = ExitStack()
        self._reference_times: dict[str, asyncio.Task[timedelta]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._reference_times.values():
            task.cancel()
        await asyncio.gather(*self._reference_times.values(), return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        self._readers.close()

    async def measure(self, task: Task, samples: Sequence[Sample]) -> list[Measured | None]:
        """In order; None for one that a reward of one's own gave no number. The values are those of the components that
        count for the problem.

        Raises InvalidArgument where the problem or a reward of one's own lets nothing be measured, Unavailable when the
        platform failed.
        """
        if not samples:
            return []
        names = [component.name for component in self._reward.of(task.problem.tags).components]
        every: list[dict[str, float]] = [_of_tests(sample.grade) for sample in samples]
        if any(name in self._read for name in names):
            for found, values in zip(every, await self._read_all(task.problem, samples), strict=True):
                found.update(values)
        if "efficiency" in names:
            theirs = await self._reference_time(task)
            for found, sample in zip(every, samples, strict=True):
                found["efficiency"] = _efficiency(sample.grade, theirs)
        if self._scorer and self._preference and preference.NAME in names:
            scores = await self._scorer.scores(task.problem, [sample.answer for sample in samples])
            for found, score in zip(every, scores, strict=True):
                found[preference.NAME] = preference.within(score, self._preference.parameters)
        cut = [False] * len(samples)
        for component in (one for one in self._own if one.name in names):
            for place, score in enumerate(await self._scores(component, task.problem, samples)):
                limit = component.parameters.get("limit", 1.0)
                cut[place] |= abs(score) > limit
                every[place][component.name] = max(-1.0, min(1.0, score / limit)) if math.isfinite(score) else math.nan
        return [
            Measured(
                {name: found[name] for name in names},
                passed=sample.grade.passed,
                tampered=sample.grade.verdict == TAMPERED,
                cut=is_cut,
            )
            if all(math.isfinite(found[name]) for name in names)
            else None
            for found, sample, is_cut in zip(every, samples, cut, strict=True)
        ]

    async def _scores(self, component: Component, problem: Problem, samples: Sequence[Sample]) -> list[float]:
        if not component.plugin:
            return await own.scores(self._executor, component, problem, samples)
        function = self._plugins[component.plugin]
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, own.installed_scores, function, component.plugin, problem, samples
        )

    async def _read_all(self, problem: Problem, samples: Sequence[Sample]) -> list[Mapping[str, float]]:
        if not self._read:
            return [{} for _ in samples]
        if problem.language != PYTHON or problem.answers:  # they read programs in Python alone
            return [dict.fromkeys(self._read, 0.0) for _ in samples]
        loop = asyncio.get_running_loop()
        reading = (loop.run_in_executor(self._threads, self._read_one, problem, sample.source) for sample in samples)
        return list(await asyncio.gather(*reading))

    def _read_one(self, problem: Problem, source: str) -> Mapping[str, float]:
        """In a thread, each of which has a reader."""
        reader: Reader | None = getattr(self._of_thread, "reader", None)
        if reader is None:
            reader = self._of_thread.reader = self._readers.enter_context(Reader(list(self._read), self._read))
        return {name: score.value for name, score in reader.read(source, problem).items()}

    async def _reference_time(self, task: Task) -> timedelta:
        """Measured once for each problem. Raises InvalidArgument, Unavailable."""
        key = task.problem.digest
        running = self._reference_times.get(key)
        if running is None or (running.done() and (running.cancelled() or running.exception())):
            running = self._reference_times[key] = asyncio.create_task(self._measure_reference(task))
        return await asyncio.shield(running)

    async def _measure_reference(self, task: Task) -> timedelta:
        tried = replace(task, is_program=True)
        times = []
        for _ in range(RUNS):
            try:
                took = await cpu_time(self._executor, tried, reference(task.problem))
            except NotMeasurable as error:
                raise InvalidArgument(f"efficiency can't be measured: {error}") from error
            if took is None:
                raise InvalidArgument(f"efficiency can't be measured: the reference of {task.problem.id} does not pass")
            times.append(took)
        return sorted(times)[RUNS // 2]


def _of_tests(grade: Grade) -> dict[str, float]:
    if grade.score is not None:
        share = grade.score
    elif grade.verdict == TAMPERED or not grade.tests_total:
        share = float(grade.passed)
    else:
        share = grade.tests_passed / grade.tests_total
    return {"tests_passed": float(grade.passed), "tests_fraction": share}


def _efficiency(grade: Grade, theirs: timedelta) -> float:
    """0 for a program that does not pass, or whose time is not known."""
    if not grade.passed or grade.cpu_time is None:
        return 0.0
    return compare(grade.cpu_time, theirs).value
