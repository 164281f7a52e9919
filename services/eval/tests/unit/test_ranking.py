"""Bradley-Terry by votes: its strengths, and what its intervals are worth."""

import math
import random
from dataclasses import astuple

import pytest

from eval_service.domain.ranking import Vote, rank
from ratchet_kit.errors import FailedPrecondition


def votes(first: str, second: str, wins: int, losses: int, ties: int = 0) -> list[Vote]:
    scores = [1.0] * wins + [0.0] * losses + [0.5] * ties
    return [Vote(first, second, score, ("basics", f"p{number}")) for number, score in enumerate(scores)]


def test_two_models_differ_by_the_logit_of_their_share() -> None:
    strong, weak = rank(["a", "b"], votes("a", "b", 74, 24))
    # and one tie more
    assert strong.strength.value - weak.strength.value == pytest.approx(math.log(74.5 / 24.5))
    assert strong.strength.value == pytest.approx(-weak.strength.value)
    assert (strong.evaluation_id, strong.votes, strong.wins, weak.wins) == ("a", 98, 74, 24)
    # the interval of a difference of logits of independent votes: 1 / sqrt(n p (1 - p)), of which each has half
    half = 1.98 / math.sqrt(99 * 0.7525 * 0.2475) / 2
    assert strong.strength.high - strong.strength.value == pytest.approx(half, rel=0.05)


def test_sides_do_not_matter_and_ties_are_half_a_win() -> None:
    forth = votes("a", "b", 6, 2, 2)
    back = [Vote("b", "a", 1 - vote.score, vote.problem) for vote in forth]
    for one, other in zip(rank(["a", "b"], forth), rank(["a", "b"], back), strict=True):
        assert astuple(one.strength) == pytest.approx(astuple(other.strength))
        assert (one.evaluation_id, one.votes, one.wins) == (other.evaluation_id, other.votes, other.wins)
    even = rank(["a", "b"], votes("a", "b", 3, 3, 4))
    assert [one.strength.value for one in even] == pytest.approx([0.0, 0.0])


def test_models_are_ranked_through_those_that_both_met() -> None:
    found = rank(["c", "a", "b"], votes("a", "b", 30, 10) + votes("b", "c", 30, 10))
    assert [one.evaluation_id for one in found] == ["a", "b", "c"]
    assert found[0].strength.value == pytest.approx(-found[2].strength.value)
    assert sum(one.strength.value for one in found) == pytest.approx(0.0)


def test_who_always_wins_is_still_of_finite_strength_and_unsure() -> None:
    strong, weak = rank(["a", "b"], votes("a", "b", 10, 0))
    assert strong.strength.value < 5
    assert strong.strength.low < strong.strength.value - 0.5
    assert weak.wins == 0


def test_what_votes_do_not_connect_is_not_ranked() -> None:
    for given in ([], votes("a", "b", 5, 5), votes("a", "b", 5, 5) + votes("c", "d", 5, 5)):
        with pytest.raises(FailedPrecondition, match="never compared"):
            rank(["a", "b", "c", "d"], given)


@pytest.mark.parametrize(("problems", "alike"), [(200, 0.0), (50, 1.0)], ids=["independent", "alike on a problem"])
def test_intervals_hold_the_truth(problems: int, alike: float) -> None:
    """300 ballots of 200 votes each among three models; in the second kind, votes on one problem lean one way."""
    truth = {"a": 0.6, "b": 0.0, "c": -0.6}
    chance, held = random.Random(1), 0
    for _ in range(300):
        leans = [{id: chance.gauss(0, alike) for id in truth} for _ in range(problems)]
        ballot = []
        for number in range(200):
            first, second = chance.sample(sorted(truth), 2)
            lean = leans[number % problems]
            logit = truth[first] + lean[first] - truth[second] - lean[second]
            won = chance.random() < 1 / (1 + math.exp(-logit))
            ballot.append(Vote(first, second, float(won), ("basics", str(number % problems))))
        # leaning makes strengths on average weaker than on each problem: the middle one's is 0 all the same
        middle = next(one for one in rank(["a", "b", "c"], ballot) if one.evaluation_id == "b").strength
        held += middle.low <= 0 <= middle.high
    assert 0.92 <= held / 300 <= 0.98
