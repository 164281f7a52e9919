"""Pairs of samples that people choose between, their votes, and the ranking by the votes."""

from collections.abc import Sequence

from ratchet.eval.v1 import preference_pb2 as pb
from ratchet_client.calls import Call, Listing, call, listing, new_request_id
from ratchet_client.resource import Resource, S, listed, unary


class Preferences(Resource[S]):
    @unary
    def create(
        self, evaluation_ids: Sequence[str], voter: str, passed_only: bool = False, request_id: str = ""
    ) -> Call[pb.Pair]:
        """Two samples of one problem to choose from. Whose they are, it says once there is a vote."""
        request = pb.CreatePairRequest(
            request_id=request_id or new_request_id(),
            evaluation_ids=evaluation_ids,
            voter=voter,
            passed_only=passed_only,
        )
        return call(request, pb.CreatePairResponse, lambda reply: reply.pair)

    @unary
    def vote(self, pair_id: str, choice: pb.Choice.ValueType) -> Call[pb.Pair]:
        request = pb.VotePairRequest(id=pair_id, choice=choice)
        return call(request, pb.VotePairResponse, lambda reply: reply.pair)

    @listed
    def list(self, evaluation_id: str = "") -> Listing[pb.Pair]:
        """The newest first; of one evaluation where it is named."""
        request = pb.ListPairsRequest(evaluation_id=evaluation_id)
        return listing(request, pb.ListPairsResponse, lambda reply: reply.pairs)

    @unary
    def rank(self, evaluation_ids: Sequence[str], confidence: float | None = None) -> Call[pb.RankEvaluationsResponse]:
        """The strongest first. `confidence` of the intervals: None means 0.95."""
        request = pb.RankEvaluationsRequest(evaluation_ids=evaluation_ids, confidence=confidence)
        return call(request, pb.RankEvaluationsResponse, lambda reply: reply)
