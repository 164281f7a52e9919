"""Trials by the sandbox: the references of a caller's problems are run before a run learns from them."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.preflight import DECLARED, Preflight, preflight_all
from ratchet_environments.sandbox import Sandbox
from ratchet_environments.task import Task
from ratchet_kit.errors import RatchetError
from ratchet_kit.logs import get_logger
from ratchet_problems import NAMES, Problem
from trainer_service.domain.inputs.found import Trial
from trainer_service.domain.spec.spec import ProblemSetRef
from trainer_service.job.samples import problems as problem_sets

log = get_logger(__name__)
MOST = 1000
"""Problems of a set that are tried, from all over it."""
TIME = timedelta(seconds=15)
"""For a set: Create answers within a call's deadline. What is not tried until then is taken as it is."""

_KEPT = 256


class SandboxTrials:
    def __init__(self, sandbox: Sandbox, time: timedelta = TIME) -> None:
        self._sandbox = sandbox
        self._time = time
        self._known: dict[str, Trial] = {}
        """By the digest of the set: a study makes many runs of the same problems."""

    async def of(self, ref: ProblemSetRef) -> Trial:
        if ref.name in NAMES:
            return Trial()  # our own are tested
        if (known := self._known.get(ref.digest)) is not None:
            return known
        every, problems, found = list[Problem](), list[Problem](), dict[int, Preflight]()
        try:
            async with Executor(self._sandbox, attempts=2) as executor, asyncio.timeout(self._time.total_seconds()):
                read = await asyncio.to_thread(problem_sets.read, ref.name, limit=ref.limit)
                every = [one for one in read if one.references and one.tests]
                problems += _spread(every)
                tasks = [Task.of(problem) for problem in problems]
                environment = CodeEnvironment(executor, forgeable=True)
                await preflight_all(environment, tasks, tell=found.__setitem__, tests_too=True)
        except TimeoutError:  # what it was for may only have been slow among the others
            found = {place: one for place, one in found.items() if "TIME_LIMIT" not in one.fault}
            return _trial(problems, found, len(every))
        except RatchetError as error:
            log.warning("references.not_run", reason=error.message)
            return _trial(problems, {}, len(every))
        trial = _trial(problems, found, len(every))
        self._known = dict([*self._known.items(), (ref.digest, trial)][-_KEPT:])
        return trial


def _trial(problems: Sequence[Problem], found: Mapping[int, Preflight], size: int) -> Trial:
    faults = {problems[place].id: fault for place, one in sorted(found.items()) if (fault := _fault(one))}
    return Trial(size, len(found), tuple(f"{id}: {fault}" for id, fault in faults.items()))


def _spread(problems: Sequence[Problem]) -> Sequence[Problem]:
    return problems[:: -(-len(problems) // MOST) or 1]


def _fault(one: Preflight) -> str:
    """In training each test has the kind of grading that its file says."""
    beside = next((reason for reason in one.shared.values() if reason != DECLARED), "")
    apart = f"its reference passes only where its tests share the program's process: {beside}" if beside else ""
    return one.fault or apart
