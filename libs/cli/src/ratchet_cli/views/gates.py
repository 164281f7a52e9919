"""What a gate decided."""

from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_cli.terminal.errors import CommandError


def passed(gate: pb.Gate) -> bool:
    return gate.state == pb.Gate.STATE_PASSED


def raise_unless_decided(gate: pb.Gate) -> None:
    if gate.state == pb.Gate.STATE_FAILED:
        raise CommandError(f"Gate {gate.id} could not be decided: {gate.failure.message}")
