"""Protobuf to values, and back. Pure."""

from ratchet.common.v1 import environment_pb2 as pb
from ratchet_environments.spec import EnvironmentSpec


def spec_from_proto(message: pb.EnvironmentSpec) -> EnvironmentSpec:
    return EnvironmentSpec(message.name, message.max_turns if message.HasField("max_turns") else None)


def spec_to_proto(spec: EnvironmentSpec) -> pb.EnvironmentSpec:
    return pb.EnvironmentSpec(name=spec.name, max_turns=spec.max_turns)
