"""References tried before a score is trusted: is each problem one that can be passed here?"""

from collections.abc import AsyncIterator, Iterable, Mapping

from eval_service.domain.parallel import each
from eval_service.domain.patience import Patience
from eval_service.domain.ports import EvaluationStore
from eval_service.domain.sample import ProblemKey
from eval_service.domain.sets import Sets
from ratchet_environments import Environment, judge
from ratchet_kit.errors import FailedPrecondition, InvalidArgument

_NAMED = 20
"""As many problems a sentence names."""


async def unsound(
    sets: Sets,
    keys: Iterable[ProblemKey],
    store: EvaluationStore,
    environment: Environment,
    patience: Patience,
    at_once: int,
) -> dict[ProblemKey, str]:
    """The problems whose first reference does not pass, with the reason. One without a reference is taken as it is;
    one whose reference passed before is not tried again."""
    problems = {key: sets.problems[key] for key in keys}
    known = await patience.insist(lambda: store.sound([problem.digest for problem in problems.values()]))
    todo = {key: one for key, one in problems.items() if one.references and one.digest not in known}
    faults: dict[ProblemKey, str] = {}
    sound: list[str] = []

    async def of(keys: list[ProblemKey]) -> AsyncIterator[ProblemKey]:
        for key in keys:
            yield key

    async def attempt(key: ProblemKey) -> None:
        problem = todo[key]
        task = sets.task(key, is_program=True)
        try:
            grade = (await patience.insist(lambda: judge(environment, task, problem.references[0]))).grade
        except InvalidArgument as error:
            faults[key] = error.message
        else:
            if grade.passed:
                sound.append(problem.digest)
                faults.pop(key, None)
            else:
                faults[key] = f"its reference is {grade.verdict}: {grade.detail}".rstrip(": ")
        patience.made()

    await each(of(list(todo)), attempt, at_once)
    await each(of(list(faults)), attempt, 1)  # one that was only slow among the others may pass alone
    await patience.insist(lambda: store.add_sound(sound))
    return {key: faults[key] for key in todo if key in faults}  # in order


def refusal(faults: Mapping[ProblemKey, str]) -> FailedPrecondition:
    named = "; ".join(f"{key.problem_id}: {reason[:200]}" for key, reason in list(faults.items())[:_NAMED])
    more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
    return FailedPrecondition(
        f"{len(faults)} problems cannot be passed here (exclude_unsound leaves them out): {named}{more}"
    )
