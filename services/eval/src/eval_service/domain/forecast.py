"""The usage that an evaluation is expected to have, by earlier ones of the same model on the same sets."""

from collections.abc import Sequence
from dataclasses import replace

from eval_service.domain.comparison import setup_of
from eval_service.domain.evaluation import Evaluation, ResolvedModel, State
from eval_service.domain.ports import EvaluationFilter, EvaluationStore, ProblemSource
from eval_service.domain.spec import EvaluationSpec
from ratchet_kit.projects import is_seen
from ratchet_kit.usage import Prices, Usage, priced, total

LOOKED_AT = 100
"""Earlier evaluations of the model on the first set, the newest."""
TAKEN = 10
"""As many of those that are alike are looked at closely."""


class Forecasts:
    def __init__(self, store: EvaluationStore, problems: ProblemSource, prices: Prices | None) -> None:
        self._store = store
        self._problems = problems
        self._prices = prices

    async def of(self, spec: EvaluationSpec, model: ResolvedModel | None) -> Usage | None:
        """None for imported samples, where no evaluation like it has succeeded yet, and where a set must be prepared
        first. Counts all its samples as drawn anew. Raises Unavailable."""
        if model is None:
            return None
        only = EvaluationFilter(model=spec.model_name, problems=spec.names[0], state=State.SUCCEEDED)
        alike = [one for one in await self._store.page(LOOKED_AT, None, only) if _is_alike(one, spec, model)]
        alike = [one for one in alike if is_seen(one.id)][:TAKEN]
        tokens = await self._store.tokens([one.id for one in alike])
        # Samples that were known from before cost nothing: those that drew all of theirs count.
        past = [one for one in alike if 0 < tokens[one.id] <= one.usage.completion_tokens]
        drawn = sum(one.score.samples for one in past if one.score)
        samples = await self._samples(spec) if drawn else 0
        return priced(total(one.usage for one in past).times(samples / drawn), self._prices) if samples else None

    async def _samples(self, spec: EvaluationSpec) -> int:
        """0 where a set must be prepared first."""
        sets = [await self._problems.load_if_ready(entry.problems, spec.kind) for entry in spec.suite]
        ready = [one for one in sets if one]
        return spec.samples_per_problem * sum(len(one.problems) for one in ready) if len(ready) == len(sets) else 0


def short_of(budget: float | None, expected: Usage | None) -> Sequence[str]:
    """Notices of a budget that ends it early."""
    cost = expected.cost if expected else None
    if budget is None or expected is None or cost is None or cost <= budget:
        return ()
    share = f"{int(100 * budget / cost)}%"
    return (f"its budget of {budget:,g} {expected.currency} is expected to end it after {share} of its samples",)


def _is_alike(past: Evaluation, spec: EvaluationSpec, model: ResolvedModel) -> bool:
    """The same model, in any version, gets the same sets, all or a part of them, in the same way."""
    if past.model is None or past.spec.names != spec.names:
        return False
    is_same = past.spec.model_name == spec.model_name if spec.model_name else past.model.source == model.source
    return is_same and _way(past.spec, past.spec) == _way(spec, past.spec)


def _way(spec: EvaluationSpec, past: EvaluationSpec) -> dict[str, object]:
    """`past`: its form of the prompts is meant where the spec leaves it open."""
    prompting = replace(spec.prompting, form=spec.prompting.form or past.prompting.form)
    shown = spec.examples and replace(spec.examples, digest="")
    setup = setup_of(replace(spec, prompting=prompting, examples=shown))
    return {name: value for name, value in setup.items() if name not in ("problems", "weights")}
