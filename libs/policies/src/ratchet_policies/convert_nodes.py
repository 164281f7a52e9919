"""Nodes and purposes to protobuf and back. Pure. Their values have the same names there."""

from ratchet.common.v1 import node_pb2 as pb
from ratchet_kit.errors import FieldViolation, Internal, InvalidArgument
from ratchet_policies.node import Engine, Node, NodeState
from ratchet_policies.policy import PolicyState, Purpose

_PURPOSES = {pb.Purpose.Value(f"PURPOSE_{purpose.name}"): purpose for purpose in Purpose}
_NODE_STATES = {pb.Node.State.Value(f"STATE_{state.name}"): state for state in NodeState}
_POLICY_STATES = {pb.Node.Engine.State.Value(f"STATE_{state.name}"): state for state in PolicyState}


def purpose_from_proto(message: pb.Purpose.ValueType, field: str = "purpose") -> Purpose:
    """Raises InvalidArgument, which names the field, for one that is not known here."""
    if message == pb.PURPOSE_UNSPECIFIED:
        return Purpose.SERVING
    if message not in _PURPOSES:
        fault = "must be serving, training or evaluation"
        raise InvalidArgument(f"{field} {fault}", [FieldViolation(field, fault)])
    return _PURPOSES[message]


def purpose_to_proto(purpose: Purpose) -> pb.Purpose.ValueType:
    return pb.Purpose.Value(f"PURPOSE_{purpose.name}")


def node_from_proto(message: pb.Node) -> Node:
    """Raises Internal for a state that is not known here."""
    state = _NODE_STATES.get(message.state)
    if state is None:
        raise Internal(f"rollout node {message.address} says that it is in state {message.state}")
    return Node(
        address=message.address,
        state=state,
        capacity=message.capacity,
        engines=tuple(map(_engine, message.engines)),
        free={_PURPOSES[room.purpose]: room.free for room in message.rooms if room.purpose in _PURPOSES},
        devices=tuple(message.devices),
        free_memory=message.free_memory_bytes,
        gpu_memory=dict(message.gpu_memory_bytes),
        detail=message.detail,
    )


def node_to_proto(node: Node) -> pb.Node:
    return pb.Node(
        address=node.address,
        state=pb.Node.State.Value(f"STATE_{node.state.name}"),
        capacity=node.capacity,
        engines=map(_engine_to_proto, node.engines),
        rooms=[pb.Node.Room(purpose=purpose_to_proto(purpose), free=free) for purpose, free in node.free.items()],
        devices=node.devices,
        free_memory_bytes=node.free_memory,
        gpu_memory_bytes=node.gpu_memory,
        detail=node.detail,
    )


def _engine(message: pb.Node.Engine) -> Engine:
    return Engine(
        policy=message.policy,
        state=_POLICY_STATES.get(message.state, PolicyState.LOADING),
        policy_id=message.policy_id,
        purpose=_PURPOSES.get(message.purpose, Purpose.SERVING),
        sequences=message.sequences,
        kv_cache_tokens=message.kv_cache_tokens,
        library=message.library,
    )


def _engine_to_proto(engine: Engine) -> pb.Node.Engine:
    return pb.Node.Engine(
        policy=engine.policy,
        state=pb.Node.Engine.State.Value(f"STATE_{engine.state.name}"),
        policy_id=engine.policy_id,
        purpose=purpose_to_proto(engine.purpose),
        sequences=engine.sequences,
        kv_cache_tokens=engine.kv_cache_tokens,
        library=engine.library,
    )
