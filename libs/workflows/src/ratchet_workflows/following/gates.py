"""A gate, waited for."""

from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_client import Client
from ratchet_kit.statistics import LARGEST_CONCESSION
from ratchet_workflows.errors import WorkflowError


def decided(client: Client, gate: pb.Gate) -> pb.Gate:
    """The gate when it has PASSED or was REFUSED. Raises WorkflowError when it could not be decided."""
    gate = client.models.wait_gate(gate.id)
    if gate.state == pb.Gate.STATE_FAILED:
        raise WorkflowError(f"Gate {gate.id} could not be decided: {gate.failure.message}")
    return gate


def out_of_bounds(min_difference: float) -> str:
    """The fault of a gate's `min_difference`, said before anything is measured; empty for a valid one."""
    if -LARGEST_CONCESSION <= min_difference < 1:
        return ""
    return f"must be -{LARGEST_CONCESSION} or more and below 1, not {min_difference:g}"


def passed(gate: pb.Gate) -> bool:
    return gate.state == pb.Gate.STATE_PASSED
