"""A gate, waited for."""

from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_client import Client
from ratchet_workflows.errors import WorkflowError


def decided(client: Client, gate: pb.Gate) -> pb.Gate:
    """The gate when it has PASSED or was REFUSED. Raises WorkflowError when it could not be decided."""
    gate = client.models.wait_gate(gate.id)
    if gate.state == pb.Gate.STATE_FAILED:
        raise WorkflowError(f"Gate {gate.id} could not be decided: {gate.failure.message}")
    return gate


def passed(gate: pb.Gate) -> bool:
    return gate.state == pb.Gate.STATE_PASSED
