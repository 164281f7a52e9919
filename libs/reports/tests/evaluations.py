"""Evaluations as the API gives them, for tests: a stand-in for the client's `evaluations`."""

from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.duration_pb2 import Duration

from ratchet.common.v1 import statistics_pb2, verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_client import ApiError

PASSED, FAILED = verdict_pb2.VERDICT_PASSED, verdict_pb2.VERDICT_FAILED


def estimate(value: float) -> statistics_pb2.Estimate:
    return statistics_pb2.Estimate(value=value, low=value - 0.1, high=value + 0.1)


def sample(problem: str, passed: bool, benchmark: str = "basics", **fields: Any) -> pb.Sample:
    verdict = PASSED if passed else FAILED
    return pb.Sample(
        problem_id=problem,
        verdict=verdict,
        benchmark=benchmark,
        completion="x" * 10,
        tokens=5,
        cpu_time=Duration(nanos=2_000_000),
        **fields,
    )


def evaluation(id: str, model: str, *names: str, state: str = "SUCCEEDED", **fields: Any) -> pb.Evaluation:
    made = pb.Evaluation(id=id, state=pb.Evaluation.State.Value(f"STATE_{state}"), problems_done=2, problems_total=2)
    made.spec.model.model = model
    made.spec.temperature = 0.5
    made.spec.samples_per_problem = 2
    for name in names:
        score = made.benchmarks.add(version="v1", weight=1, problems_done=2, problems_total=2)
        score.problems.name = name
        score.pass_at_k.add(k=1, estimate=estimate(0.5))
        score.slices.add(name="difficulty 1", problems=2).pass_at_k.add(k=1, estimate=estimate(0.5))
        score.exclusions.add(problem_id="unsound", reason="its reference does not pass")
    made.spec.problems.name = names[0] if len(names) == 1 else ""
    made.MergeFrom(pb.Evaluation(**fields))
    return made


class Evaluations:
    """Has get, samples and compare_sets; what has no comparison is refused."""

    def __init__(self, found: Sequence[tuple[pb.Evaluation, Sequence[pb.Sample]]]) -> None:
        self._found = {it.id: (it, samples) for it, samples in found}
        self.evaluations = self
        self.comparisons: dict[tuple[str, str], pb.CompareEvaluationsResponse] = {}

    def get(self, id: str) -> pb.Evaluation:
        return self._found[id][0]

    def samples(self, id: str) -> Iterator[pb.Sample]:
        return iter(self._found[id][1])

    def compare_sets(self, baseline_id: str, candidate_id: str) -> pb.CompareEvaluationsResponse:
        if found := self.comparisons.get((baseline_id, candidate_id)):
            return found
        raise ApiError(400, "FAILED_PRECONDITION", "they measure different problems")


def comparison(difference: float) -> statistics_pb2.Comparison:
    return statistics_pb2.Comparison(
        baseline=estimate(0.5),
        candidate=estimate(0.5 + difference),
        difference=estimate(difference),
        p_value=0.25,
        problems=2,
    )
