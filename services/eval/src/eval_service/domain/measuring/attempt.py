"""A worker's attempt at an evaluation: the value that the five stages take."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from eval_service.domain.evaluation import Evaluation, Pace
from eval_service.domain.measuring.patience import Patience
from eval_service.domain.measuring.spent import Spent
from eval_service.domain.ports import EvaluationStore, LoadedPolicy
from eval_service.domain.sample import ProblemKey, Sample, SampleKey
from eval_service.domain.score import Count, Facts
from eval_service.domain.sets import Sets
from eval_service.domain.spec import EvaluationSpec, Form
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.times import Clock

PAGE = 500
"""Samples that are read together."""
_NAMED = 20
"""As many problems a sentence names."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A stage that changes it returns the changed one. All that it writes goes to the store, where the next attempt
    finds it."""

    evaluation: Evaluation
    owner: str
    """The worker that holds the evaluation; the store refuses a change by any other."""
    sets: Sets
    store: EvaluationStore
    patience: Patience
    spent: Spent
    faults: Mapping[ProblemKey, str] = field(default_factory=dict)
    """Problems of added samples that cannot be passed here, with the reason: unless a sample passes them after all."""

    @property
    def id(self) -> str:
        """The evaluation's."""
        return self.evaluation.id

    @property
    def spec(self) -> EvaluationSpec:
        return self.evaluation.spec

    @property
    def is_imported(self) -> bool:
        """Its samples were added by the caller: none is drawn."""
        return self.spec.imported_samples > 0

    async def change(self, change: Callable[[Evaluation], Evaluation]) -> "Attempt":
        """With the changed evaluation, which is stored. Raises what `change` raises."""
        return replace(self, evaluation=await self.store.change(self.id, change))

    async def begin(self, clock: Clock, policy: LoadedPolicy | None = None) -> "Attempt":
        """Judging begins: the pace counts from now. `policy`: the one that is measured from now on. Raises
        FailedPrecondition for another policy than before."""
        judged = sum(count.samples for count in await self.counts() if count.verdict)
        pace = Pace(clock.now(), judged)

        def change(present: Evaluation) -> Evaluation:
            if policy:
                chats = policy.has_chat_template or self.spec.chat_template
                form = Form.CHAT if chats else Form.COMPLETION
                present = present.measure(self.owner, policy.policy_id, policy.settings_id, form)
            return present.begin(self.owner, pace)

        return await self.change(change)

    async def leave_out(self, faults: Mapping[ProblemKey, str]) -> None:
        """Excludes problems that cannot be passed here. Raises FailedPrecondition where the spec does not allow it."""
        if faults and not self.spec.exclude_unsound:
            raise _refusal(faults)
        await self.store.exclude(self.id, faults)

    async def unjudged(self, only: Collection[ProblemKey] | None = None) -> AsyncIterator[Sample]:
        """`only`: of these problems."""
        last: SampleKey | None = None
        while page := await self.store.unjudged(self.id, PAGE, last):
            for sample in page:
                if only is None or sample.key.problem in only:
                    yield sample
            last = page[-1].key

    async def facts(self) -> Sequence[Facts]:
        return (await self.store.problems([self.id]))[self.id]

    async def counts(self) -> Sequence[Count]:
        return (await self.store.counts([self.id]))[self.id]


def _refusal(faults: Mapping[ProblemKey, str]) -> FailedPrecondition:
    named = "; ".join(f"{key.problem_id}: {reason[:200]}" for key, reason in list(faults.items())[:_NAMED])
    more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
    return FailedPrecondition(
        f"{len(faults)} problems cannot be passed here (exclude_unsound leaves them out): {named}{more}"
    )
