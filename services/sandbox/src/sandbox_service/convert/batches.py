"""Stored batches: from protobuf and to it, and as their programs and records are kept."""

from collections.abc import Sequence
from dataclasses import dataclass

from ratchet.sandbox.v1 import batch_pb2 as pb
from ratchet.sandbox.v1 import program_pb2
from ratchet_kit.pages import Page
from ratchet_kit.times import timestamp_to_proto
from ratchet_kit.work import Priority
from sandbox_service.convert.executions import item_to_proto
from sandbox_service.convert.programs import program_from_proto, read_programs
from sandbox_service.convert.reading import Bounds, Reading, priority_from_proto
from sandbox_service.convert.tests import literal
from sandbox_service.domain.batch import PLATFORM_ERROR, Batch, NewProgram, Record
from sandbox_service.domain.batches import Progress
from sandbox_service.domain.program import Program
from sandbox_service.domain.stream import Item, PlatformFault

MAX_STORED_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class NewBatch:
    """A CreateBatch request."""

    programs: Sequence[NewProgram]
    priority: Priority


def new_batch_from_proto(request: pb.CreateBatchRequest, bounds: Bounds) -> NewBatch:
    """Raises InvalidArgument, with all faults of all programs."""
    reading = Reading(bounds, literal)
    priority = priority_from_proto(request.priority, reading.faults)
    programs = read_programs(request.programs, reading, most=MAX_STORED_BATCH)
    reading.finish()
    contents = [message.SerializeToString() for message in request.programs]
    return NewBatch([NewProgram(*each) for each in zip(programs, contents, strict=True)], priority)


def program_from_bytes(content: bytes, bounds: Bounds) -> Program:
    """A program that was kept. Raises InvalidArgument where this node's bounds are narrower."""
    return program_from_proto(program_pb2.Program.FromString(content), bounds)


def batch_to_proto(batch: Batch) -> pb.Batch:
    message = pb.Batch(
        id=batch.id,
        state=pb.Batch.State.Value(f"STATE_{batch.state.name}"),
        programs_total=batch.programs_total,
        programs_done=batch.programs_done,
        create_time=timestamp_to_proto(batch.create_time),
    )
    if batch.end_time is not None:
        message.end_time.CopyFrom(timestamp_to_proto(batch.end_time))
    return message


def progress_to_proto(progress: Progress) -> pb.WatchBatchResponse:
    items = [program_pb2.ExecutionItem.FromString(record.content) for record in progress.records]
    return pb.WatchBatchResponse(batch=batch_to_proto(progress.batch), items=items)


def record_from_item(item: Item) -> Record:
    """As it is kept, and sent."""
    verdict = PLATFORM_ERROR if isinstance(item.outcome, PlatformFault) else item.outcome.verdict.name
    return Record(item.index, verdict, item_to_proto(item).SerializeToString())


def page_to_proto(page: Page[Batch]) -> pb.ListBatchesResponse:
    return pb.ListBatchesResponse(batches=page.map(batch_to_proto).items, next_page_token=page.next_page_token)
