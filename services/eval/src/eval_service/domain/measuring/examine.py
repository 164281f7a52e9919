"""Stage 2 of 5: tries references. Can each problem be passed here, and in which kind of grading?"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from eval_service.domain.evaluation import References
from eval_service.domain.measuring.attempt import Attempt
from eval_service.domain.measuring.patience import PatientEnvironment
from eval_service.domain.ports import Sound
from eval_service.domain.sample import ProblemKey, SampleKey
from ratchet_environments import Environment
from ratchet_environments.preflight import Preflight, preflight_all

_KEPT_EVERY_S = 1.0
"""Findings go to the store as often."""


class Examiner:
    def __init__(self, environment: Environment, at_once: int = 256) -> None:
        """`environment`: judges an answer by itself. `at_once`: references that are tried together."""
        self._environment = environment
        self._at_once = at_once

    async def examine(self, attempt: Attempt) -> Attempt:
        """Leaves out the problems that cannot be passed here. Of added samples it notes them: a sample may pass one
        whose reference does not. From now on `sets` judges each of the others in the kind of grading in which its
        reference passed, and knows the slow ones.

        Raises FailedPrecondition where the spec allows no problem to be left out, InvalidArgument for added samples of
        a problem that is not there.
        """
        if attempt.is_imported:
            keys = {count.key for count in await attempt.counts()}
            attempt.sets.check(SampleKey(key.benchmark, key.problem_id, 0) for key in keys)
            return replace(attempt, faults=await self._unsound(attempt, sorted(keys)))
        await attempt.leave_out(await self._unsound(attempt, attempt.sets.problems))
        return attempt

    async def _unsound(self, attempt: Attempt, keys: Iterable[ProblemKey]) -> dict[ProblemKey, str]:
        """The problems whose first reference does not pass, with the reason. One without a reference is taken as it is;
        one whose reference passed before is not tried again. What passes is stored as it comes, and so is how many have
        been tried."""
        sets, store, patience = attempt.sets, attempt.store, attempt.patience
        problems = {key: problem for key in keys if (problem := sets.problems[key]).references}
        known = dict(await patience.insist(lambda: store.sound([problem.digest for problem in problems.values()])))
        before = sum(problem.digest in known for problem in problems.values())
        todo = [key for key, problem in problems.items() if problem.digest not in known]
        found: dict[ProblemKey, Preflight] = {}

        def note(place: int, one: Preflight) -> None:
            found[todo[place]] = one
            patience.made()

        async def keep() -> None:
            passed = {problems[key].digest: one for key, one in found.items() if not one.fault}
            new = {
                digest: Sound(tuple(one.shared), one.cpu_time) for digest, one in passed.items() if digest not in known
            }
            if new:
                await patience.insist(lambda: store.add_sound(new))
                known.update(new)
            tried = References(before + len(found), len(problems))
            await patience.insist(lambda: attempt.change(lambda present: present.try_references(attempt.owner, tried)))

        environment = PatientEnvironment(self._environment, patience)
        trying = asyncio.create_task(preflight_all(environment, list(map(sets.task, todo)), self._at_once, note))
        try:
            while not trying.done():
                await asyncio.wait([trying], timeout=_KEPT_EVERY_S)
                await keep()
            trying.result()
        finally:
            trying.cancel()
            await asyncio.gather(trying, return_exceptions=True)
        for key, problem in problems.items():
            if problem.digest in known:
                sets.grade(key, known[problem.digest])
        return {key: one.fault for key, one in found.items() if one.fault}
