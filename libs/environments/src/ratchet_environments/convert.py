"""Protobuf to values, and back. Pure."""

from ratchet.common.v1 import environment_pb2 as pb
from ratchet_environments.spec import EnvironmentSpec


def spec_from_proto(message: pb.EnvironmentSpec) -> EnvironmentSpec:
    turns = message.max_turns if message.HasField("max_turns") else None
    return EnvironmentSpec(message.name, turns, command=tuple(message.command), files=dict(message.files))


def spec_to_proto(spec: EnvironmentSpec) -> pb.EnvironmentSpec:
    return pb.EnvironmentSpec(name=spec.name, max_turns=spec.max_turns, command=spec.command, files=spec.files)
