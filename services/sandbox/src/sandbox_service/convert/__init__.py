"""Protobuf to the domain and back. Pure; every fault of a request is found and named."""

from sandbox_service.convert.batches import (
    NewBatch,
    batch_to_proto,
    new_batch_from_proto,
    page_to_proto,
    program_from_bytes,
    progress_to_proto,
    record_from_item,
)
from sandbox_service.convert.diagnostics import (
    audit_from_proto,
    benchmark_size,
    finding_to_proto,
    measurement_to_proto,
)
from sandbox_service.convert.executions import capabilities_to_proto, execution_to_proto, item_to_proto
from sandbox_service.convert.programs import (
    MAX_BATCH,
    MIN_MEMORY,
    Call,
    execute_from_proto,
    grade_from_proto,
    program_from_proto,
    programs_from_proto,
    stream_priority_from_proto,
)
from sandbox_service.convert.reading import Bounds, caller_from_proto
from sandbox_service.convert.tests import literal
from sandbox_service.convert.workspaces import (
    command_from_proto,
    event_to_proto,
    folder_from_proto,
    given_from_proto,
    lease_from_proto,
    new_workspace_from_proto,
    paths_from_proto,
    start_from_proto,
    usage_to_proto,
    workspace_to_proto,
    workspaces_to_proto,
)

__all__ = [
    "MAX_BATCH",
    "MIN_MEMORY",
    "Bounds",
    "Call",
    "NewBatch",
    "audit_from_proto",
    "batch_to_proto",
    "benchmark_size",
    "caller_from_proto",
    "capabilities_to_proto",
    "command_from_proto",
    "event_to_proto",
    "execute_from_proto",
    "execution_to_proto",
    "finding_to_proto",
    "folder_from_proto",
    "given_from_proto",
    "grade_from_proto",
    "item_to_proto",
    "lease_from_proto",
    "literal",
    "measurement_to_proto",
    "new_batch_from_proto",
    "new_workspace_from_proto",
    "page_to_proto",
    "paths_from_proto",
    "program_from_bytes",
    "program_from_proto",
    "programs_from_proto",
    "progress_to_proto",
    "record_from_item",
    "start_from_proto",
    "stream_priority_from_proto",
    "usage_to_proto",
    "workspace_to_proto",
    "workspaces_to_proto",
]
