"""What goes wrong with a run, seen from the metrics of its steps: each guard says it in a sentence.

A guard is pure: from the metrics of the steps so far, and the thresholds of the spec, to a sentence, or to an empty one
where all is well. Some stop the run: no policy comes back from there. What the others see may be how a good run looks
for a while, so it is noticed only, and not again for some steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from trainer_service.domain.guards import collapse, drifts, gaps
from trainer_service.domain.guards.series import Series, latest, values
from trainer_service.domain.run.run import Notice
from trainer_service.domain.spec.thresholds import FIRST, IN_A_ROW, LATEST, Thresholds

WINDOW = 50
"""Steps that guards look back on, beside the first ones of the run."""
LEARNED_NOTHING = "learned_nothing"
"""The guard that looks at a whole run, at its last step."""
QUIET = 50
"""Steps for which a guard that has noticed something says nothing."""


@dataclass(frozen=True, slots=True)
class Guard:
    name: str
    stops: bool
    look: Callable[[Series, Thresholds], str]


@dataclass(frozen=True, slots=True)
class Finding:
    guard: str
    message: str
    stops: bool


def examine(
    series: Series, thresholds: Thresholds, step: int, notices: Sequence[Notice], *, is_last: bool = False
) -> list[Finding]:
    """What is to be said at the last step of these, whose number is `step`; `notices`: what was said before. `is_last`:
    the run has no more steps."""
    found = [Finding(guard.name, said, guard.stops) for guard in GUARDS if (said := guard.look(series, thresholds))]
    if is_last and (said := learned_nothing(series)):
        found.append(Finding(LEARNED_NOTHING, said, False))
    recent = {notice.guard for notice in notices if notice.step <= step < notice.step + QUIET}
    return [finding for finding in found if finding.guard not in recent]


def not_finite(series: Series, thresholds: Thresholds) -> str:
    """verl leaves such an update out; after several the weights do not come back. Nothing to set: it is never well."""
    counts = latest(series, "not_finite", IN_A_ROW)
    if not counts or min(counts) == 0:
        return ""
    return (
        f"the loss or its gradient was not a finite number in the last {IN_A_ROW} steps, and nothing is learned from"
        " such a step: take a smaller learning_rate"
    )


def far_away(series: Series, thresholds: Thresholds) -> str:
    """By its size: estimated from samples, it may be below 0."""
    sizes = [abs(value) for value in latest(series, "kl", IN_A_ROW)]
    if not (thresholds.kl_limit and sizes) or min(sizes) <= thresholds.kl_limit:
        return ""
    return (
        f"the policy moves too far: KL was {fmean(sizes):.2f} nats a token in the last {IN_A_ROW} steps, more than"
        f" {thresholds.kl_limit:g}; take a smaller learning_rate, or a kl_coefficient"
    )


def without_entropy(series: Series, thresholds: Thresholds) -> str:
    found = latest(series, "entropy", IN_A_ROW)
    if not found or max(found) >= thresholds.entropy_floor:
        return ""
    return (
        f"completions of a prompt hardly differ: entropy is {fmean(found):.3f} nats a token, below"
        f" {thresholds.entropy_floor:g}; an entropy_coefficient, or a higher temperature, keeps it up"
    )


def spiking_gradient(series: Series, thresholds: Thresholds) -> str:
    norms = values(series, "grad_norm")
    if len(norms) <= FIRST or "grad_norm" not in series[-1] or not thresholds.gradient_spike:
        return ""
    usual = median(norms[:-1])
    if not usual or norms[-1] <= thresholds.gradient_spike * usual:
        return ""
    return f"the gradient's norm was {norms[-1]:.3g}, {norms[-1] / usual:.0f} times the usual {usual:.3g}"


def without_signal(series: Series, thresholds: Thresholds) -> str:
    shares = latest(series, "groups_without_signal", LATEST)
    if not (thresholds.no_signal_share and shares) or fmean(shares) <= thresholds.no_signal_share:
        return ""
    passed = latest(series, drifts.PASSED, LATEST)
    easy = "easy" if passed and fmean(passed) > 0.5 else "hard"
    return (
        f"{fmean(shares):.0%} of the groups of the last {LATEST} steps have one reward, so that nothing is learned from"
        f" them: the problems are too {easy}, or group_size is too small"
    )


def learned_nothing(series: Series) -> str:
    """Sentence on a whole run, however short, in which no step had a gradient from its rewards."""
    shares = values(series, "groups_without_signal")
    if not shares or min(shares) < 1.0:
        return ""
    return (
        "the run learned nothing: in every step all completions of each group earned the same reward. Take problems"
        " that the base solves sometimes, a reward with more steps, or a larger group_size"
    )


def clipped_rewards(series: Series, thresholds: Thresholds) -> str:
    share = series[-1].get("rewards_clipped", 0.0) if series else 0.0
    if not share:
        return ""
    limit = thresholds.reward_limit
    return f"the rewards of {share:.1%} of the completions were cut: to {limit:g}, or a score of your own to its limit"


def left_out_problems(series: Series, thresholds: Thresholds) -> str:
    """Said once an attempt, at its first step: nothing to set, the spec has refuse_long_prompts."""
    metrics = series[-1] if series else {}
    if "problems_left_out" not in metrics:
        return ""
    validation = metrics.get("validation_left_out", 0.0)
    also = f", and {validation:.0f} of those validated on," if validation else ""
    left_out, problems = metrics["problems_left_out"], metrics.get("problems", 0.0)
    kind = "pairs" if "pair_accuracy" in metrics else "problems"
    return (
        f"{left_out:.0f} of {problems:.0f} {kind}{also} are left out: they have no room in max_prompt_tokens; the"
        f" longest has {metrics.get('longest_problem_tokens', 0.0):.0f} tokens"
    )


def unsaved_samples(series: Series, thresholds: Thresholds) -> str:
    """Nothing to set: the run goes on without them."""
    metrics = series[-1] if series else {}
    waiting, lost = metrics.get("samples_waiting", 0.0), metrics.get("samples_lost", 0.0)
    if lost:
        return f"the samples of {lost:.0f} steps could not be kept: the log of the job says why"
    if waiting:
        return f"the samples of {waiting:.0f} steps wait for the artifact store: the log of the job says why"
    return ""


GUARDS: Sequence[Guard] = (
    Guard("not_finite", True, not_finite),
    Guard("collapse", True, collapse.below_the_base_in_validation),
    Guard("collapse_in_training", True, collapse.below_the_base_in_training),
    Guard("loss", True, collapse.rising_loss),
    Guard("kl", True, far_away),
    Guard("tampering_stop", True, drifts.mostly_tampering),
    Guard("left_out", False, left_out_problems),
    Guard("entropy", False, without_entropy),
    Guard("gradient", False, spiking_gradient),
    Guard("no_signal", False, without_signal),
    Guard("reward", False, clipped_rewards),
    Guard("length", False, drifts.drifting_length),
    Guard("truncated", False, drifts.truncated),
    Guard("repetition", False, drifts.repeating),
    Guard("reward_gap", False, gaps.reward_in_training_alone),
    Guard("second_hand_gap", False, gaps.passing_what_is_rewarded),
    Guard("tampering", False, drifts.tampering),
    Guard("verdicts", False, drifts.shifting_verdicts),
    Guard("samples", False, unsaved_samples),
)
