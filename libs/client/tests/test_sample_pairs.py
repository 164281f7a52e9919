from typing import Any

from ratchet.common.v1 import verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_client import sample_pairs


def sample(problem: str, completion: str, verdict: str = "FAILED", **fields: Any) -> pb.Sample:
    value = verdict_pb2.Verdict.Value(f"VERDICT_{verdict}")
    return pb.Sample(benchmark="b", problem_id=problem, completion=completion, verdict=value, **fields)


def pairs(*samples: pb.Sample) -> list[tuple[str, str, str]]:
    rows = sample_pairs.rows(samples, lambda benchmark, problem: f"{benchmark}:{problem}")
    return [(row["problem"], row["chosen"], row["rejected"]) for row in rows]


def test_what_passes_is_paired_with_what_fails_on_the_same_problem() -> None:
    assert pairs(
        sample("p", "no"),
        sample("p", "yes", "PASSED"),
        sample("p", "slow", "TIME_LIMIT"),
        sample("p", "also", "PASSED"),
        sample("p", "third", "PASSED"),
        sample("q", "alone", "PASSED"),
        sample("r", "wrong"),
        sample("s", "broken", "COMPILE_ERROR"),
        sample("s", "fine", "PASSED"),
    ) == [("b:p", "yes", "no"), ("b:p", "also", "slow"), ("b:s", "fine", "broken")]


def test_a_text_is_in_one_pair_at_most_and_on_one_side() -> None:
    twice = [sample("p", text, verdict) for text, verdict in (("yes", "PASSED"), ("no", "FAILED"), ("odd", "PASSED"))]
    flaky = [sample("p", "odd"), sample("p", "no"), sample("p", "yes", "PASSED"), sample("p", "worse")]
    assert pairs(*twice, *flaky) == [("b:p", "yes", "no"), ("b:p", "odd", "worse")]


def test_what_says_nothing_of_the_model_is_left_out() -> None:
    good = sample("p", "yes", "PASSED")
    for other in (
        sample("p", "lost", "UNSPECIFIED"),
        sample("p", "cut", truncated=True),
        sample("p", "whole", is_program=True),
        sample("p", " \n"),
    ):
        assert pairs(good, other) == []
    assert len(pairs(good, sample("p", "no"))) == 1
