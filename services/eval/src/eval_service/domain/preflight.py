"""References tried before a score is trusted: can each problem be passed here, and in which kind of grading?"""

from collections.abc import Iterable, Mapping

from eval_service.domain.patience import PatientEnvironment
from eval_service.domain.ports import EvaluationStore, Sound
from eval_service.domain.sample import ProblemKey
from eval_service.domain.sets import Sets
from ratchet_environments.preflight import preflight_all
from ratchet_kit.errors import FailedPrecondition

_NAMED = 20
"""As many problems a sentence names."""


async def unsound(
    sets: Sets, keys: Iterable[ProblemKey], store: EvaluationStore, environment: PatientEnvironment, at_once: int
) -> dict[ProblemKey, str]:
    """The problems whose first reference does not pass, with the reason. From now on `sets` judges each of the others
    in the kind of grading in which it passed, and knows the slow ones. One without a reference is taken as it is; one
    whose reference passed before is not tried again."""
    patience = environment.patience
    problems = {key: problem for key in keys if (problem := sets.problems[key]).references}
    known = dict(await patience.insist(lambda: store.sound([problem.digest for problem in problems.values()])))
    todo = [key for key, problem in problems.items() if problem.digest not in known]
    tasks = [sets.task(key) for key in todo]
    found = dict(zip(todo, await preflight_all(environment, tasks, at_once, lambda done: patience.made()), strict=True))
    new = {problems[key].digest: Sound(tuple(one.shared), one.cpu_time) for key, one in found.items() if not one.fault}
    await patience.insist(lambda: store.add_sound(new))
    known |= new
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
