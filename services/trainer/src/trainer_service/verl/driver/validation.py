"""A policy's score on the validation problems, with what is known of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ratchet_kit.statistics import Estimate
from ratchet_problems import Problem
from trainer_service.job.run.validated import interval
from trainer_service.job.samples.groups import Groups
from trainer_service.job.samples.tally import components, of_turns
from trainer_service.verl.metrics import SCORE

BASE_SCORE = "validation/base_score"
PROBLEMS = "validation/problems"


@dataclass(frozen=True, slots=True)
class Validated:
    score: float
    interval: Estimate | None
    problems: int
    components: Mapping[str, float]
    """Mean values of the reward's components, and of turns where there are several, by metrics' names."""

    @property
    def metrics(self) -> dict[str, float]:
        return {PROBLEMS: self.problems, **self._with_ends(SCORE)}

    @property
    def base_metrics(self) -> dict[str, float]:
        """Where it is the base that was measured, before the first step."""
        return self._with_ends(BASE_SCORE)

    def _with_ends(self, name: str) -> dict[str, float]:
        sure = self.interval
        return {name: self.score} | ({f"{name}_low": sure.low, f"{name}_high": sure.high} if sure else {})


async def validate(groups: Groups, problems: Sequence[Problem], step: int) -> Validated:
    """Of the weights that the engine has, those of `step`. Raises as `Groups.check_faults`."""
    made = await groups.validate(problems, step)
    samples = [sample for group in made for sample in group.samples]
    earned = [sample.earned for sample in samples]
    lost = len(made) - len(earned)
    cut_off = sum(group.cut_off for group in made) if earned else 0
    groups.check_faults(step, lost - cut_off, len(made))
    scores = [[sample.earned.score for sample in group.samples] for group in made]
    of = "base" if step == 0 else "validation"
    turns = [sample.turns for sample in samples if sample.turns]
    measured = components(earned) | (of_turns(turns) if turns else {})
    return Validated(
        fmean(one.score for one in earned),
        interval(problems, scores),
        len(made),
        {f"{of}_{name}": value for name, value in measured.items()},
    )
