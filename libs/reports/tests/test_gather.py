"""What a report says of evaluations."""

import json
from typing import Any

from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_reports.document import Report, Solved, Spread
from ratchet_reports.gather import gather, labels

from .evaluations import FAILED, Evaluations, comparison, evaluation, sample


def gathered(client: Any, *ids: str, baseline: str = "e1") -> Report:
    return gather(client, dict.fromkeys(ids, ""), baseline, "Report", lambda done, total: None)


def test_samples_become_outcomes_problems_and_spreads() -> None:
    samples = [
        sample("p1", True, forgeable=True),
        sample("p1", False, failure=pb.FAILURE_CLASS_NO_CODE, truncated=True),
        sample("p2", False),
        sample("p2", True),
    ]
    (only,) = gathered(Evaluations([(evaluation("e1", "m", "basics"), samples)]), "e1").evaluations[0].sets
    assert only.outcomes == {"PASSED": 2, "NO_CODE": 1, "WRONG": 1}
    assert only.problems == {"p1": Solved(1, 2), "p2": Solved(1, 2)}
    assert (only.forgeable_passes, only.truncated, only.samples) == (1, 1, 4)
    assert only.exclusions == {"unsound": "its reference does not pass"}
    # nothing was recorded of how long they took to write
    assert list(only.spreads) == ["characters", "tokens", "CPU seconds"]
    assert only.spreads["CPU seconds"].median == 0.002


def test_a_suite_keeps_its_sets_apart() -> None:
    samples = [sample("p1", True, "basics"), sample("p1", False, "other")]
    report = gathered(Evaluations([(evaluation("e1", "m", "basics", "other"), samples)]), "e1")
    assert report.set_names == ["basics", "other"]
    assert [one.problems["p1"].passes for one in report.evaluations[0].sets] == [1, 0]


def test_an_evaluation_without_scores_by_set_has_the_one_it_measures() -> None:
    """What services of before give: no benchmarks, no set in a sample."""
    old = pb.Evaluation(id="e1", state=pb.Evaluation.STATE_SUCCEEDED)
    old.spec.problems.name = "basics"
    old.pass_at_k.add(k=1).estimate.value = 0.5
    report = gathered(Evaluations([(old, [pb.Sample(problem_id="p1", verdict=FAILED)])]), "e1")
    (only,) = report.evaluations[0].sets
    assert (only.name, only.pass_at_k[1].value, only.outcomes) == ("basics", 0.5, {"WRONG": 1})


def test_what_is_not_whole_says_so() -> None:
    running = evaluation("e1", "m", "basics", state="RUNNING", problems_total=9)
    failed = evaluation("e2", "n", "basics", state="FAILED", failure={"message": "no weights"})
    queued = pb.Evaluation(id="e3", state=pb.Evaluation.STATE_QUEUED)
    report = gathered(Evaluations([(running, []), (failed, []), (queued, [])]), "e1", "e2", "e3")
    notes = [it.note for it in report.evaluations]
    assert notes[0].startswith("is still running; 2 of 9 problems are done")
    assert notes[1].startswith("failed: no weights; 2 of 2")
    assert notes[2] == "has not begun; no problem of it is done."
    assert {paired.refused for paired in report.comparisons} == {"they measure different problems"}


def test_the_others_are_compared_with_the_baseline_by_set_and_problem() -> None:
    client = Evaluations(
        [
            (evaluation("e1", "m", "basics"), [sample("p1", True), sample("p2", False), sample("p3", True)]),
            (evaluation("e2", "n", "basics"), [sample("p1", False), sample("p2", True), sample("p3", True)]),
        ]
    )
    reply = pb.CompareEvaluationsResponse(comparison=comparison(0.1))
    reply.benchmarks.add(name="basics", comparison=comparison(0.1), adjusted_p_value=0.5)
    client.comparisons["e1", "e2"] = reply
    (paired,) = gathered(client, "e1", "e2").comparisons
    (only,) = paired.sets
    assert (only.difference.value, only.p_value, only.adjusted_p_value, only.confidence) == (0.1, 0.25, 0.5, 0.95)
    assert (only.gained, only.lost) == (["p2"], ["p1"])


def test_a_suite_is_compared_as_a_whole_and_by_set() -> None:
    client = Evaluations([(evaluation(id, id, "basics", "other"), []) for id in ("e1", "e2")])
    reply = pb.CompareEvaluationsResponse(comparison=comparison(0.1))
    for name in ("basics", "other"):
        reply.benchmarks.add(name=name, comparison=comparison(0.1))
    client.comparisons["e1", "e2"] = reply
    (paired,) = gathered(client, "e1", "e2").comparisons
    assert [one.name for one in paired.sets] == ["whole score", "basics", "other"]


def test_without_a_baseline_each_is_compared_with_the_first_that_measured_the_same() -> None:
    found = [evaluation("e1", "m", "basics"), evaluation("e2", "m", "other"), evaluation("e3", "n", "other")]
    found.append(evaluation("e4", "n", "other"))
    found[3].spec.temperature = 1.0
    report = gathered(Evaluations([(it, []) for it in found]), *(it.id for it in found), baseline="")
    assert [(paired.baseline_id, paired.candidate_id) for paired in report.comparisons] == [("e2", "e3")]


def test_labels_differ_by_as_little_as_sets_them_apart() -> None:
    first = evaluation("e1", "m", "basics")
    again = evaluation("e2", "m", "basics")
    warmer = evaluation("e3", "m", "basics")
    warmer.spec.temperature = 1.0
    folder = evaluation("e4", "", "basics")
    folder.spec.model.uri = "/models/tuned/"
    assert labels([first, folder], {}) == ["m", "tuned"]
    assert labels([first, warmer], {}) == ["m, T 0.5", "m, T 1"]
    assert labels([first, warmer], {"e3": "hot"}) == ["m", "hot"]
    assert labels([first, again], {}) == ["m, e1", "m, e2"]


def test_quantiles_lie_between_the_nearest_two() -> None:
    spread = Spread.of([4.0, 1.0, 3.0, 2.0])
    assert spread is not None
    assert (spread.mean, spread.median, spread.p25, spread.samples) == (2.5, 2.5, 1.75, 4)
    assert Spread.of([]) is None
    assert Spread.of([0.0, 0.0]) is None


def test_the_json_is_json() -> None:
    report = gathered(Evaluations([(evaluation("e1", "m", "basics"), [sample("p1", True)])]), "e1")
    found = json.loads(json.dumps(report.to_json()))
    assert found["evaluations"][0]["sets"][0]["pass_at_k"]["1"]["value"] == 0.5
