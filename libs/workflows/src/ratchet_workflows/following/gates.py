"""A gate, waited for."""

from ratchet.eval.v1 import eval_pb2
from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_client import Client
from ratchet_kit.statistics import LARGEST_CONCESSION, LEAST_PROBLEMS
from ratchet_workflows.errors import WorkflowError


def decided(client: Client, gate: pb.Gate) -> pb.Gate:
    """The gate when it has PASSED or was REFUSED. Raises WorkflowError when it could not be decided."""
    gate = client.models.wait_gate(gate.id)
    if gate.state == pb.Gate.STATE_FAILED:
        raise WorkflowError(f"Gate {gate.id} could not be decided: {gate.failure.message}")
    return gate


def too_few(spec: eval_pb2.EvaluationSpec) -> str:
    """The fault of a spec whose limits leave too few problems for a gate; empty for any other. Said before anything is
    generated: the registry refuses such a gate after both evaluations."""
    for one in [entry.problems for entry in spec.suite] or [spec.problems]:
        if one.HasField("limit") and one.limit < LEAST_PROBLEMS:
            return f"takes {one.limit} problems of {one.name}, and a gate needs {LEAST_PROBLEMS} or more"
    return ""


def out_of_bounds(min_difference: float) -> str:
    """The fault of a gate's `min_difference`, said as early as `too_few`; empty for one that the registry takes."""
    if -LARGEST_CONCESSION <= min_difference < 1:
        return ""
    return f"must be -{LARGEST_CONCESSION} or more and below 1, not {min_difference:g}"


def passed(gate: pb.Gate) -> bool:
    return gate.state == pb.Gate.STATE_PASSED
