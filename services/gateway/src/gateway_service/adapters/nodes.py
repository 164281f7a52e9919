"""The rollout nodes, as the console and /api/v1 show them."""

from gateway_service.domain.platform import Health, RolloutNodes, State
from ratchet.rollout.v1 import rollout_pb2
from ratchet_kit.pages import fetch_page
from ratchet_policies import NodeState
from ratchet_policies.fleet import Fleet


class NodesHealth:
    """HealthCheck: the rollout service serves where a node does."""

    def __init__(self, nodes: RolloutNodes) -> None:
        self._nodes = nodes

    async def check(self) -> Health:
        nodes = self._nodes.nodes()
        away = [node for node in nodes if node.state is NodeState.AWAY]
        said = [f"{node.address}: {node.detail}" for node in away or nodes if node.detail]
        detail = f"{len(away)} of {len(nodes)} nodes away: {said[0]}" if away else "; ".join(said)
        if any(node.state is NodeState.SERVING for node in nodes):
            return Health(State.SERVING, detail=detail)
        if len(away) == len(nodes):
            return Health(State.AWAY, detail=detail)
        return Health(State.NOT_SERVING, detail=detail or "all nodes are drained")


class AllPolicies:
    """What of RolloutService stands at /api/v1, for all nodes."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def ListPolicies(self, request: rollout_pb2.ListPoliciesRequest) -> rollout_pb2.ListPoliciesResponse:
        async def after(limit: int, name: str | None) -> list[rollout_pb2.Policy]:
            listed = await self._fleet.listed()
            return [policy for policy in listed if name is None or policy.name > name][:limit]

        page = await fetch_page(after, lambda policy: policy.name, str, request.page_size, request.page_token)
        return rollout_pb2.ListPoliciesResponse(policies=page.items, next_page_token=page.next_page_token)
