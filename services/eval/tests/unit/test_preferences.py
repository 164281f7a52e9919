"""Pairs are drawn blind and evenly, votes are stored, models are ranked by them."""

import random
from collections import Counter
from typing import Any

import pytest

from eval_service import convert
from eval_service.domain.pair import Choice
from eval_service.domain.preferences import Pairing, Preferences
from eval_service.domain.sample import Judgement, ProblemKey, Sample, SampleKey
from eval_service.domain.score import Facts
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef, SuiteEntry
from ratchet.eval.v1 import preference_pb2 as pb
from ratchet_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.names import VersionRef

from ..memory_pairs import MemoryPairStore

SPEC = EvaluationSpec(VersionRef("starter", 1), (SuiteEntry(ProblemSetRef("basics")),))


@pytest.fixture
def preferences(world: Any) -> Preferences:
    return Preferences(MemoryPairStore(), world.store, world.problems, world.clock, random.Random(1))


async def measured(world: Any, name: str, verdict: str = "PASSED", problems: int = 3) -> str:
    """An evaluation with two samples of each problem, whose text names it."""
    id: str = (await world.evaluations.create(SPEC, "")).evaluation.id
    keys = [ProblemKey("basics", f"p{number:02}") for number in range(problems)]
    await world.store.add_problems(id, [Facts(key) for key in keys])
    judgement = Judgement(verdict, 0, 1)
    samples = [
        Sample(SampleKey(key.benchmark, key.problem_id, index), f"{name} {index}", judgement=judgement)
        for key in keys
        for index in range(2)
    ]
    await world.store.add_samples(id, samples)
    return id


async def test_a_pair_is_of_one_problem_and_does_not_say_whose(world: Any, preferences: Preferences) -> None:
    ids = [await measured(world, "a"), await measured(world, "b")]
    pair = await preferences.create(Pairing(ids, "ada"), "req_1")
    assert {pair.left.text[0], pair.right.text[0]} == {"a", "b"}
    assert pair.prompt == f"Solve {int(pair.problem_id[1:])}."
    assert await preferences.create(Pairing(ids, "ada"), "req_1") == pair
    with pytest.raises(AlreadyExists):
        await preferences.create(Pairing(ids, "bob"), "req_1")
    shown = convert.pair_to_proto(pair)
    assert (shown.left_evaluation_id, shown.right_evaluation_id) == ("", "")
    voted = convert.pair_to_proto(await preferences.vote(pair.id, Choice.LEFT))
    assert {voted.left_evaluation_id, voted.right_evaluation_id} == set(ids)


async def test_evaluations_and_sides_come_evenly_and_no_pair_twice(world: Any, preferences: Preferences) -> None:
    ids = [await measured(world, name, problems=6) for name in "abc"]
    pairs = [await preferences.create(Pairing(ids, "ada"), "") for _ in range(30)]
    met = Counter(frozenset((pair.left.evaluation_id, pair.right.evaluation_id)) for pair in pairs)
    assert set(met.values()) == {10}
    assert 5 <= sum(pair.left.text[0] < pair.right.text[0] for pair in pairs) <= 25
    assert len({pair.samples for pair in pairs}) == 30


async def test_there_may_be_nothing_to_choose_from(world: Any, preferences: Preferences) -> None:
    good, bad = await measured(world, "a"), await measured(world, "b", "FAILED")
    same = await measured(world, "a")
    for ids, passed_only in (([good, same], False), ([good, bad], True)):
        with pytest.raises(FailedPrecondition, match="no two samples"):
            for _ in range(100):
                pair = await preferences.create(Pairing(ids, "ada", passed_only), "")
                assert pair.left.text != pair.right.text
    with pytest.raises(NotFound):
        await preferences.create(Pairing([good, "eval_0"], "ada"), "")


async def test_votes_rank_and_open_pairs_do_not_count(world: Any, preferences: Preferences) -> None:
    ids = [await measured(world, "a", problems=6), await measured(world, "b", problems=6)]
    for _ in range(12):
        pair = await preferences.create(Pairing(ids, "ada"), "")
        await preferences.vote(pair.id, Choice.LEFT if pair.left.evaluation_id == ids[0] else Choice.RIGHT)
    await preferences.create(Pairing(ids, "ada"), "")
    first, second = await preferences.rank(ids, 0.95)
    assert (first.evaluation_id, first.votes, first.wins, second.wins) == (ids[0], 12, 12, 0)
    assert len((await preferences.page(50, "", ids[0])).items) == 13


@pytest.mark.parametrize(
    ("read", "message", "field"),
    [
        (convert.pairing_from_proto, pb.CreatePairRequest(evaluation_ids=["e"], voter="ada"), "evaluation_ids"),
        (convert.pairing_from_proto, pb.CreatePairRequest(evaluation_ids=["e", "f"]), "voter"),
        (convert.choice_from_proto, pb.VotePairRequest(id="pair_1"), "choice"),
        (convert.ranking_from_proto, pb.RankEvaluationsRequest(evaluation_ids=["e", "e"]), "evaluation_ids"),
        (convert.ranking_from_proto, pb.RankEvaluationsRequest(evaluation_ids=["e", "f"], confidence=1), "confidence"),
    ],
)
def test_what_is_wrong_is_named(read: Any, message: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read(message)
    assert [violation.field for violation in refused.value.violations] == [field]
