"""What a gate pays for: every comparison that could have been gated instead of this one. Pure.

Among many candidates that are no better, one looks better by luck, whether each was gated or only looked at. So
evaluations count, and not gates. Each of another version than the champion, on the gate's problems, since the champion
is the one to beat, is a comparison with the champion's evaluation; and several where the champion was measured several
times. Comparisons get their numbers in the order in which they could first be made, whatever is gated when.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.statistics import LEAST_PROBLEMS

CONFIDENCE = 0.95
"""Of the interval of the first comparison on problems, where they are one set."""


@dataclass(frozen=True, slots=True)
class Look:
    """An evaluation that measured problems of the gate's; it may be deleted by now."""

    evaluation_id: str
    model: str
    """Its name in the registry; empty: measured by its path."""
    policy_id: str
    start_time: datetime
    setup: str
    """Those of one setup can be compared."""
    draw: str
    """Those of one draw have the very same samples."""
    problems: int
    """Of the gate's, that it measured."""
    total: int
    """All that it measured; 0: it failed or was cancelled."""

    @property
    def order(self) -> tuple[datetime, str]:
        return self.start_time, self.evaluation_id

    def share(self, problems: int) -> Fraction:
        """How much of a look at the gate's problems it was, of 1. Where it could have been gated itself, the part of
        the smaller set: who measures a part of the gate's problems may gate on that."""
        fewer = min(self.total, problems) if self.total >= LEAST_PROBLEMS else problems
        return Fraction(self.problems, fewer)


@dataclass(frozen=True, slots=True)
class Tries:
    before: int
    """Comparisons that came before."""
    now: int
    """With this one, and those that came with it."""

    def confidence(self, share: float = 1.0) -> float:
        """Of the interval that decides the one comparison; `share` is its part of the error, see `share_of`.

        The first is decided at 95 %. All later ones together get as much error again, however many come: when their
        number goes from a to b, 0.05 (1/a - 1/b) is for the b - a new ones, so 0.05 / (j (j - 1)) for the j-th where
        they come one by one. Half of each is on the side of a gain, so over all of them something that is no better
        passes with a probability of 5 % at most: errors add up at worst (Bonferroni), here in unequal parts, as
        clinical trials spend theirs on their looks (Lan and DeMets 1983, "Discrete Sequential Boundaries for Clinical
        Trials").
        """
        spent = (2 - 1 / self.now) / self.now if self.before == 0 else 1 / (self.before * self.now)
        return 1 - (1 - CONFIDENCE) * spent * share


def share_of(sets: int, *, target: bool) -> float:
    """Of a comparison's error, for what the gain must show on: it may have been chosen after a look at all of them.
    Where there are several sets, half is for the whole score, and half for the sets, in equal parts."""
    if sets < 2:
        return 1.0
    return 0.5 / sets if target else 0.5


def count_tries(
    model: str,
    candidate: str,
    champion: str,
    champion_policy: str,
    began: Callable[[datetime], datetime],
    looks: Sequence[Look],
) -> Tries:
    """`candidate` and `champion` are the gate's evaluations, on the same problems and both among the looks.

    `began`: since when looks count, for weights that were first measured at a time. Looks count by their shares; the
    sum is rounded. One counts under the model's name, and under every other under which
    the candidate's weights were measured. Raises FailedPrecondition for an evaluation from before problems were kept.
    """
    firsts = _first_of_each_draw(looks)
    known = {one.evaluation_id: firsts[one.draw] for one in looks}
    for id in (candidate, champion):
        if id not in known:
            raise FailedPrecondition(f"the problems of evaluation {id} are not known well enough: measure anew")
    own, baseline = known[candidate], known[champion]
    same = [one for one in looks if one.policy_id == own.policy_id]
    names = {model} | {one.model for one in same}
    since = began(min(one.start_time for one in same))
    problems = next(one.problems for one in looks if one.evaluation_id == candidate)
    arrivals: list[tuple[tuple[datetime, str], Fraction]] = []
    arrival = own.order
    for one in firsts.values():
        is_other = one.policy_id != champion_policy and one.model in names and one.start_time >= since
        if not is_other and one is not own:
            continue
        share = one.share(problems)
        arrivals.append((one.order, share))  # with the first evaluation of the champion, or with one still to come
        of_champion = (it for it in firsts.values() if (it.policy_id, it.setup) == (champion_policy, one.setup))
        for other in sorted(of_champion, key=lambda it: it.order)[1:]:
            arrivals.append((max(one.order, other.order), share))
            if one is own and other is baseline:
                arrival = arrivals[-1][0]
    before = sum((share for order, share in arrivals if order < arrival), Fraction(0))
    now = sum((share for order, share in arrivals if order <= arrival), Fraction(0))
    return Tries(_rounded(before), max(_rounded(before) + 1, _rounded(now)))


def _first_of_each_draw(looks: Sequence[Look]) -> dict[str, Look]:
    firsts: dict[str, Look] = {}
    for one in sorted(looks, key=lambda it: it.order):
        firsts.setdefault(one.draw, one)
    return firsts


def _rounded(number: Fraction) -> int:
    return int(number + Fraction(1, 2))
