"""The services of the platform, the names that it knows, and the policies that its engines have loaded."""

from datetime import datetime

from ratchet.gateway.v1 import platform_pb2 as pb
from ratchet.rollout.v1 import rollout_pb2
from ratchet_client.calls import Call, Listing, call, listing
from ratchet_client.resource import Resource, S, listed, unary


class Platform(Resource[S]):
    @unary
    def get(self) -> Call[pb.GetPlatformResponse]:
        """The health of each service, as the gateway sees it now."""
        return call(pb.GetPlatformRequest(), pb.GetPlatformResponse, lambda reply: reply)

    @unary
    def catalogue(self) -> Call[pb.GetCatalogueResponse]:
        """Names that a spec may say: algorithms, rewards, sets, benchmarks and measures."""
        return call(pb.GetCatalogueRequest(), pb.GetCatalogueResponse, lambda reply: reply)

    @unary
    def failures(self, since: datetime | None = None) -> Call[pb.GetFailuresResponse]:
        """The latest failures of runs, evaluations, releases and versions; None: of the last 7 days. `since` must be
        aware."""
        request = pb.GetFailuresRequest()
        if since:
            request.after_time.FromDatetime(since)
        return call(request, pb.GetFailuresResponse, lambda reply: reply)

    @unary
    def costs(
        self,
        by: pb.GetCostsRequest.By.ValueType = pb.GetCostsRequest.BY_VERSION,
        since: datetime | None = None,
    ) -> Call[pb.GetCostsResponse]:
        """Use by runs, evaluations and answers, summed; None: of the last 30 days. `since` must be aware."""
        request = pb.GetCostsRequest(by=by)
        if since:
            request.after_time.FromDatetime(since)
        return call(request, pb.GetCostsResponse, lambda reply: reply)

    @listed
    def policies(self) -> Listing[rollout_pb2.Policy]:
        """By name."""
        reply = rollout_pb2.ListPoliciesResponse
        return listing(rollout_pb2.ListPoliciesRequest(), reply, lambda reply: reply.policies)
