"""PolicyHost by rollout-service."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from ratchet_kit.errors import RatchetError
from ratchet_kit.logs import get_logger
from ratchet_kit.names import policy_name
from ratchet_policies import PolicyEngine, Purpose, unload
from ratchet_policies.node import Node, NodeState
from trainer_service.domain.run.run import RunId

log = get_logger(__name__)


class Engines(PolicyEngine, Protocol):
    """Says what nodes there are, too."""

    def nodes(self) -> Sequence[Node]: ...


class RolloutPolicyHost:
    """Jobs load their policy as `policy_name(run_id, attempt)`."""

    def __init__(self, engine: Engines) -> None:
        self._engine = engine

    def places(self) -> Sequence[int] | None:
        """By the nodes' last answers."""
        serving = [node for node in self._engine.nodes() if node.state is NodeState.SERVING]
        return [_places(node) for node in serving] or None

    def gpu_memory(self) -> Mapping[str, int]:
        """By the nodes' last answers; nodes on one GPU take it together."""
        taken: Counter[str] = Counter()
        for node in self._engine.nodes():
            taken.update(node.gpu_memory)
        return taken

    async def release(self, id: RunId, attempt: int) -> None:
        over = {policy_name(id, number) for number in range(1, attempt + 1)}
        try:
            for policy in await self._engine.all():
                if policy.name in over:
                    await unload(self._engine, policy.name)
        except RatchetError as error:
            log.warning("policy.not_unloaded", run_id=id, reason=error.message)


def _places(node: Node) -> int:
    held = sum(engine.purpose is Purpose.TRAINING for engine in node.engines)
    return held + node.free.get(Purpose.TRAINING, 0)
