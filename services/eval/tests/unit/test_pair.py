"""A pair and its one vote."""

from datetime import UTC, datetime

import pytest

from eval_service.domain.pair import Choice, Pair, Side
from ratchet_kit.errors import FailedPrecondition

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAIR = Pair("pair_1", "ada", "basics", "p1", "Sum xs.", Side("e1", 0, "a"), Side("e2", 1, "b"), NOW)


def test_a_vote_is_cast_once_and_may_be_repeated() -> None:
    voted = PAIR.vote(Choice.LEFT, NOW)
    assert (voted.choice, voted.vote_time) == (Choice.LEFT, NOW)
    assert voted.vote(Choice.LEFT, datetime(2027, 1, 1, tzinfo=UTC)) == voted
    with pytest.raises(FailedPrecondition, match="voted on before: left"):
        voted.vote(Choice.TIE, NOW)


def test_samples_are_the_same_on_either_side() -> None:
    turned = Pair("pair_2", "bob", "basics", "p1", "", PAIR.right, PAIR.left, NOW)
    assert turned.samples == PAIR.samples
