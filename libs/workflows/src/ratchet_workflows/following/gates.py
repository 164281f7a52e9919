"""A gate, waited for."""

from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_client import ApiError, Client
from ratchet_kit.statistics import LARGEST_CONCESSION
from ratchet_reports import usage_words
from ratchet_workflows.errors import WorkflowError


def decided(client: Client, gate: pb.Gate) -> pb.Gate:
    """The gate when it has PASSED or was REFUSED. Raises WorkflowError when it could not be decided."""
    gate = client.models.wait_gate(gate.id)
    if gate.state == pb.Gate.STATE_FAILED:
        raise WorkflowError(f"Gate {gate.id} could not be decided: {gate.failure.message}")
    return gate


def cost(client: Client, gate: pb.Gate) -> str:
    """The cost of what it was decided by: the candidate's run and both evaluations, and its part for each point gained.
    Empty without prices, and where one of them is not there any more."""
    try:
        measured = [client.evaluations.get(id) for id in (gate.champion_evaluation_id, gate.candidate_evaluation_id)]
        usages = [one.usage for one in measured]
        if not any(usage.HasField("cost") for usage in usages):
            return ""
        run = client.models.version(gate.candidate.model, gate.candidate.number).lineage.run_id
        usages += [client.runs.get(run).usage] if run else []
    except ApiError:
        return ""
    return usage_words.together(usages, gate.comparison.difference.value)


def out_of_bounds(min_difference: float) -> str:
    """The fault of a gate's `min_difference`, said before anything is measured; empty for a valid one."""
    if -LARGEST_CONCESSION <= min_difference < 1:
        return ""
    return f"must be -{LARGEST_CONCESSION} or more and below 1, not {min_difference:g}"


def passed(gate: pb.Gate) -> bool:
    return gate.state == pb.Gate.STATE_PASSED
