"""Stage 1 of 5: loads the problems of an evaluation."""

from collections.abc import Callable
from functools import partial

from eval_service.domain.evaluation import Evaluation
from eval_service.domain.measuring.attempt import Attempt
from eval_service.domain.measuring.patience import Patience
from eval_service.domain.measuring.spent import Spent
from eval_service.domain.ports import EvaluationStore, ProblemSource
from eval_service.domain.sets import Sets, examples_of, looked_at
from eval_service.domain.spec import Kind
from ratchet_problems.examples import Examples


class Loader:
    def __init__(
        self,
        problems: ProblemSource,
        store: EvaluationStore,
        patience: Callable[[], Patience],
        spent: Callable[[], Spent],
    ) -> None:
        """`patience` and `spent`: each attempt gets one of its own."""
        self._problems = problems
        self._store = store
        self._patience = patience
        self._spent = spent

    async def load(self, evaluation: Evaluation, owner: str) -> Attempt:
        """Fixes what is measured. Raises InvalidArgument for a set that is not there, FailedPrecondition where its
        problems changed since an attempt before."""
        patience, spent = self._patience(), self._spent()
        suite = evaluation.spec.suite
        kind = evaluation.spec.kind
        loaded = [await patience.insist(partial(self._problems.load, entry.problems, kind)) for entry in suite]
        examples, shown = Examples(), ""
        if wanted := evaluation.spec.examples:
            first = await patience.insist(partial(self._problems.load, looked_at(wanted), Kind.UNTESTED))
            examples, shown = examples_of(wanted, first), first.digest
        patience.made()
        attempt = Attempt(evaluation, owner, Sets(evaluation.spec, loaded, examples), self._store, patience, spent)
        attempt = await attempt.change(lambda present: present.load_problems(owner, attempt.sets.loaded, shown))
        await self._store.add_problems(attempt.id, attempt.sets.facts())
        return attempt
