"""Stored batches of programs, through the gateway. `SandboxBatches` is the same at a sandbox itself."""

from collections.abc import Sequence

from ratchet.common.v1 import priority_pb2
from ratchet.sandbox.v1 import batch_pb2 as pb
from ratchet.sandbox.v1 import program_pb2
from ratchet_client.calls import Call, Listing, Stream, call, listing, new_request_id, nothing, stream
from ratchet_client.resource import Resource, S, listed, streamed, unary


class Batches(Resource[S]):
    @unary
    def create(
        self,
        programs: Sequence[program_pb2.Program],
        priority: priority_pb2.Priority.ValueType = priority_pb2.PRIORITY_NORMAL,
        request_id: str = "",
    ) -> Call[pb.Batch]:
        """Returns at once. Sent again under its request_id, it gives the same batch."""
        request_id = request_id or new_request_id()
        request = pb.CreateBatchRequest(programs=programs, priority=priority, request_id=request_id)
        return call(request, pb.CreateBatchResponse, lambda reply: reply.batch)

    @unary
    def get(self, batch_id: str) -> Call[pb.Batch]:
        return call(pb.GetBatchRequest(id=batch_id), pb.GetBatchResponse, lambda reply: reply.batch)

    @listed
    def list(self) -> Listing[pb.Batch]:
        """The newest first."""
        return listing(pb.ListBatchesRequest(), pb.ListBatchesResponse, lambda reply: reply.batches)

    @streamed
    def watch(self, batch_id: str) -> Stream[pb.WatchBatchResponse]:
        """Every item, as they are recorded, until the batch has ended."""
        return stream(pb.WatchBatchRequest(id=batch_id), pb.WatchBatchResponse, lambda reply: reply)

    @unary
    def cancel(self, batch_id: str) -> Call[pb.Batch]:
        """Ends a batch; recorded executions stay."""
        return call(pb.CancelBatchRequest(id=batch_id), pb.CancelBatchResponse, lambda reply: reply.batch)

    @unary
    def delete(self, batch_id: str) -> Call[None]:
        """A batch that has ended, with its items."""
        return nothing(pb.DeleteBatchRequest(id=batch_id), pb.DeleteBatchResponse)
