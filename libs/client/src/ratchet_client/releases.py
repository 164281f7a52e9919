"""Gradual releases of a version to traffic."""

from ratchet.gateway.v1 import release_pb2 as pb
from ratchet_client.calls import Call, Listing, Stream, call, listing, new_request_id, stream
from ratchet_client.resource import Resource, S, last, listed, streamed, unary


class Releases(Resource[S]):
    @unary
    def create(self, spec: pb.ReleaseSpec, request_id: str = "") -> Call[pb.Release]:
        """Returns at once. Sent again under its request_id, it gives the same release."""
        request = pb.CreateReleaseRequest(request_id=request_id or new_request_id(), spec=spec)
        return call(request, pb.CreateReleaseResponse, lambda reply: reply.release)

    @unary
    def get(self, release_id: str) -> Call[pb.Release]:
        return call(pb.GetReleaseRequest(id=release_id), pb.GetReleaseResponse, lambda reply: reply.release)

    @listed
    def list(self, model: str = "") -> Listing[pb.Release]:
        """The newest first. `model`: only its releases, when given."""
        return listing(pb.ListReleasesRequest(model=model), pb.ListReleasesResponse, lambda reply: reply.releases)

    @unary
    def rollback(self, release_id: str, reason: str) -> Call[pb.Release]:
        """All traffic goes back to the baseline."""
        request = pb.RollbackReleaseRequest(id=release_id, reason=reason)
        return call(request, pb.RollbackReleaseResponse, lambda reply: reply.release)

    @unary
    def pause(self, release_id: str, reason: str = "") -> Call[pb.Release]:
        """All traffic goes to the baseline, until it is resumed."""
        request = pb.PauseReleaseRequest(id=release_id, reason=reason)
        return call(request, pb.PauseReleaseResponse, lambda reply: reply.release)

    @unary
    def resume(self, release_id: str, reason: str = "") -> Call[pb.Release]:
        """The stage that was paused goes on."""
        request = pb.ResumeReleaseRequest(id=release_id, reason=reason)
        return call(request, pb.ResumeReleaseResponse, lambda reply: reply.release)

    @unary
    def promote(self, release_id: str, reason: str = "") -> Call[pb.Release]:
        """The candidate becomes the champion now; while it is watched, that ends."""
        request = pb.PromoteReleaseRequest(id=release_id, reason=reason)
        return call(request, pb.PromoteReleaseResponse, lambda reply: reply.release)

    @streamed
    def watch(self, release_id: str) -> Stream[pb.Release]:
        """The release at every change, until it has ended."""
        return stream(pb.WatchReleaseRequest(id=release_id), pb.WatchReleaseResponse, lambda reply: reply.release)

    wait = last(watch.build)
    """The release, when it has ended: after the watch, where it has one."""
