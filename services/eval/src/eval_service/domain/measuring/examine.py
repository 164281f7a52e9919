"""References tried before a score is trusted: can each problem be passed here, and in which kind of grading?"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from eval_service.domain.evaluation import References
from eval_service.domain.measuring.patience import PatientEnvironment
from eval_service.domain.ports import EvaluationStore, Sound
from eval_service.domain.sample import ProblemKey
from eval_service.domain.sets import Sets
from ratchet_environments.preflight import Preflight, preflight_all
from ratchet_kit.errors import FailedPrecondition

_NAMED = 20
"""As many problems a sentence names."""
_KEPT_EVERY_S = 1.0
"""What was found goes to the store."""


async def unsound(
    sets: Sets,
    keys: Iterable[ProblemKey],
    store: EvaluationStore,
    environment: PatientEnvironment,
    at_once: int,
    tell: Callable[[References], Awaitable[None]],
) -> dict[ProblemKey, str]:
    """The problems whose first reference does not pass, with the reason. From now on `sets` judges each of the others
    in the kind of grading in which it passed, and knows the slow ones. One without a reference is taken as it is; one
    whose reference passed before is not tried again: what passes is stored as it comes, and `tell` is given how many
    have been tried."""
    patience = environment.patience
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
        new = {digest: Sound(tuple(one.shared), one.cpu_time) for digest, one in passed.items() if digest not in known}
        if new:
            await patience.insist(lambda: store.add_sound(new))
            known.update(new)
        await patience.insist(lambda: tell(References(before + len(found), len(problems))))

    trying = asyncio.create_task(preflight_all(environment, list(map(sets.task, todo)), at_once, note))
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


def refusal(faults: Mapping[ProblemKey, str]) -> FailedPrecondition:
    named = "; ".join(f"{key.problem_id}: {reason[:200]}" for key, reason in list(faults.items())[:_NAMED])
    more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
    return FailedPrecondition(
        f"{len(faults)} problems cannot be passed here (exclude_unsound leaves them out): {named}{more}"
    )
