"""Evaluations, their samples, and the comparison of two."""

from collections.abc import Sequence
from datetime import datetime

from ratchet.common.v1 import statistics_pb2, verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_client.calls import Call, Listing, Stream, call, listing, new_request_id, nothing, stream
from ratchet_client.resource import Resource, S, last, listed, streamed, unary


class Evaluations(Resource[S]):
    @unary
    def create(
        self, spec: pb.EvaluationSpec, request_id: str = "", *, validate_only: bool = False, for_gate: bool = False
    ) -> Call[pb.Evaluation]:
        """Returns at once: the evaluation is queued. Sent again under its request_id, it gives the same one.
        `validate_only`: nothing is stored; it is only looked whether the evaluation could be made. `for_gate`: refuses
        sets with too few problems for a gate."""
        request = pb.CreateEvaluationRequest(
            request_id=request_id or new_request_id(), spec=spec, validate_only=validate_only, for_gate=for_gate
        )
        return call(request, pb.CreateEvaluationResponse, lambda reply: reply.evaluation)

    @unary
    def get(self, evaluation_id: str) -> Call[pb.Evaluation]:
        request = pb.GetEvaluationRequest(id=evaluation_id)
        return call(request, pb.GetEvaluationResponse, lambda reply: reply.evaluation)

    @listed
    def list(
        self,
        model: str = "",
        problems: str = "",
        state: pb.Evaluation.State.ValueType = pb.Evaluation.STATE_UNSPECIFIED,
        since: datetime | None = None,
        name: str = "",
    ) -> Listing[pb.Evaluation]:
        """The newest first; those of one model's versions, of one set, in that state, created since then, with `name`
        in their display_name, where these are given. `since` must be aware."""
        request = pb.ListEvaluationsRequest(model=model, problems=problems, state=state, name=name)
        if since:
            request.after_time.FromDatetime(since)
        return listing(request, pb.ListEvaluationsResponse, lambda reply: reply.evaluations)

    @unary
    def cancel(self, evaluation_id: str) -> Call[pb.Evaluation]:
        """Ends an evaluation; samples measured so far stay."""
        request = pb.CancelEvaluationRequest(id=evaluation_id)
        return call(request, pb.CancelEvaluationResponse, lambda reply: reply.evaluation)

    @streamed
    def watch(self, evaluation_id: str) -> Stream[pb.Evaluation]:
        """The evaluation at every change, until it has ended."""
        request = pb.WatchEvaluationRequest(id=evaluation_id)
        return stream(request, pb.WatchEvaluationResponse, lambda reply: reply.evaluation)

    wait = last(watch.build)
    """The evaluation, when it has ended."""

    @unary
    def delete(self, evaluation_id: str) -> Call[None]:
        """An evaluation that has ended, with its samples."""
        return nothing(pb.DeleteEvaluationRequest(id=evaluation_id), pb.DeleteEvaluationResponse)

    @listed
    def samples(
        self,
        evaluation_id: str,
        benchmark: str = "",
        problem_id: str = "",
        verdict: verdict_pb2.Verdict.ValueType = verdict_pb2.VERDICT_UNSPECIFIED,
        failure: pb.FailureClass.ValueType = pb.FAILURE_CLASS_UNSPECIFIED,
    ) -> Listing[pb.Sample]:
        """Every graded completion; those of one set, of one problem, of one verdict, of one failure, where they are
        named."""
        request = pb.ListSamplesRequest(
            evaluation_id=evaluation_id, benchmark=benchmark, problem_id=problem_id, verdict=verdict, failure=failure
        )
        return listing(request, pb.ListSamplesResponse, lambda reply: reply.samples)

    @unary
    def episode(
        self, evaluation_id: str, problem_id: str, index: int = 0, benchmark: str = "", *, tokens: bool = False
    ) -> Call[pb.GetEpisodeResponse]:
        """The sample and the record of an episode, whose form `ratchet_episodes.record` reads. `tokens`: with token ids
        and log-probs. `benchmark`: its set, where there are several."""
        request = pb.GetEpisodeRequest(
            evaluation_id=evaluation_id, benchmark=benchmark, problem_id=problem_id, index=index, tokens=tokens
        )
        return call(request, pb.GetEpisodeResponse, lambda reply: reply)

    @unary
    def problem(self, evaluation_id: str, problem_id: str, benchmark: str = "") -> Call[pb.GetMeasuredProblemResponse]:
        """A problem as it was put to the model, with its tests. `benchmark`: its set, where there are several."""
        request = pb.GetMeasuredProblemRequest(evaluation_id=evaluation_id, benchmark=benchmark, problem_id=problem_id)
        return call(request, pb.GetMeasuredProblemResponse, lambda reply: reply)

    @unary
    def add_samples(self, evaluation_id: str, samples: Sequence[pb.ImportedSample]) -> Call[pb.Evaluation]:
        """Samples that were made elsewhere, to an evaluation whose spec says `imported_samples`; 2,000 at a time. One
        that is there already stays as it is. `sample_files` reads them from files."""
        request = pb.AddSamplesRequest(evaluation_id=evaluation_id, samples=samples)
        return call(request, pb.AddSamplesResponse, lambda reply: reply.evaluation)

    @unary
    def compare(self, baseline_id: str, candidate_id: str) -> Call[statistics_pb2.Comparison]:
        """Two evaluations of the same problems, paired."""
        request = pb.CompareEvaluationsRequest(baseline_id=baseline_id, candidate_id=candidate_id)
        return call(request, pb.CompareEvaluationsResponse, lambda reply: reply.comparison)

    @unary
    def compare_sets(
        self, baseline_id: str, candidate_id: str, confidence: float | None = None
    ) -> Call[pb.CompareEvaluationsResponse]:
        """As compare, and each set of the two by itself. `confidence` of the intervals: None means 0.95."""
        request = pb.CompareEvaluationsRequest(
            baseline_id=baseline_id, candidate_id=candidate_id, confidence=confidence
        )
        return call(request, pb.CompareEvaluationsResponse, lambda reply: reply)

    @unary
    def plan(
        self,
        baseline_id: str,
        *,
        samples_per_problem: int | None = None,
        problems: int | None = None,
        power: float | None = None,
    ) -> Call[pb.PlanComparisonResponse]:
        """The smallest difference that a comparison with this evaluation would show. What is None is as the baseline
        has it; `power`, the probability of seeing a difference that is there, is then 0.8."""
        request = pb.PlanComparisonRequest(
            baseline_id=baseline_id, samples_per_problem=samples_per_problem, problems=problems, power=power
        )
        return call(request, pb.PlanComparisonResponse, lambda reply: reply)
