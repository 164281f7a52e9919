"""What an EvaluationStore knows of what has measured the same problems: as test_evaluation_store."""

from dataclasses import replace
from datetime import timedelta

from eval_service.domain.evaluation import Evaluation, State
from eval_service.domain.ports import EvaluationStore
from eval_service.domain.sample import ProblemKey
from eval_service.domain.score import Facts

from .test_evaluation_store import LEASE, NOW, SCORE, add, sample, store

__all__ = ["store"]


async def measured(store: EvaluationStore, id: str, *problems: Facts, state: State = State.SUCCEEDED) -> None:
    """Each problem has a judged sample but the last of one that was cancelled."""
    await add(store, id)
    await store.add_problems(id, problems)
    judged = problems if state is State.SUCCEEDED else problems[:-1]
    await store.add_samples(id, [sample(one.key.problem_id, benchmark=one.key.benchmark) for one in judged])

    def end(present: Evaluation) -> Evaluation:
        present = replace(present.claim("me", NOW, LEASE), policy_id="sha256:p")
        return present.succeed("me", SCORE, NOW) if state is State.SUCCEEDED else present.cancel(NOW)

    await store.change(id, end)


def fact(id: str, prompt: str, tests: str = "", benchmark: str = "basics") -> Facts:
    return Facts(ProblemKey(benchmark, id), fingerprint=prompt, tests=tests)


async def test_what_measured_the_same_problems_is_found_by_prompts_and_by_tests(store: EvaluationStore) -> None:
    a, b, c = fact("a", "pa", "ta"), fact("b", "pb", "tb"), fact("c", "pc", "tc")
    await measured(store, "eval_1", a, b, c)
    await measured(store, "eval_2", fact("x", "pb", "tb", "more"))  # in another set
    await measured(store, "eval_3", fact("a", "reworded", "ta"), fact("c", "pc", "changed"), fact("d", "pd", "td"))
    await measured(store, "eval_4", fact("d", "pd", "td"))
    await measured(store, "eval_5", a, b, state=State.CANCELLED)
    await measured(store, "eval_6", replace(a, excluded="no reference"), fact("d", "pd"))
    await add(store, "eval_7")
    await store.add_problems("eval_7", [a])  # its worker has not begun

    async def found(id: str = "eval_1") -> dict[str, int]:
        return {one.evaluation_id: one.problems for one in await store.measurements(id)}

    before = {"eval_1": 3, "eval_2": 1, "eval_3": 2, "eval_5": 1}
    assert await found() == before
    for id in ("eval_2", "eval_3", "eval_5"):
        await store.delete(id)
    assert await found() == before, "what was deleted was looked at"
    assert await found("eval_4") == {"eval_3": 1, "eval_4": 1, "eval_6": 1}
    totals = {one.evaluation_id: one.total for one in await store.measurements("eval_1")}
    assert totals == {"eval_1": 3, "eval_2": 1, "eval_3": 3, "eval_5": 0}, "of one that was cancelled: nothing"
    by_id = {one.evaluation_id: one for one in await store.measurements("eval_1")}
    kept, own = by_id["eval_2"], by_id["eval_1"]
    assert (kept.model, kept.policy_id, kept.start_time, kept.setup) == ("starter", "sha256:p", NOW, own.setup)
    assert kept.draw == "eval_2", "its samples are gone: the same would be drawn anew"


async def test_what_is_the_same_draw_is_known(store: EvaluationStore) -> None:
    for id in ("eval_1", "eval_2"):
        await measured(store, id, fact("a", "pa"))
    one, other = await store.measurements("eval_1")
    assert (one.draw, one.setup) == (other.draw, other.setup)
    await store.forget_texts(NOW + timedelta(days=1))
    one, other = await store.measurements("eval_1")
    assert one.draw != other.draw
