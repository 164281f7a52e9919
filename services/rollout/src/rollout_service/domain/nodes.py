"""This node among the others."""

from collections.abc import Callable
from dataclasses import replace

from ratchet_policies import Node, NodeReport
from rollout_service.domain.policies import Policies
from rollout_service.domain.ports import OtherNodes


class Nodes:
    """`address`: where others reach this node; empty: nobody is to learn of it from others. `free_memory`: of this
    machine now, in bytes."""

    def __init__(self, policies: Policies, others: OtherNodes, address: str, free_memory: Callable[[], int]) -> None:
        self._policies = policies
        self._others = others
        self._address = address
        self._free_memory = free_memory

    def report(self, caller: str) -> NodeReport:
        """How this node is, for whoever looks at it. `caller`: the address of a node; it is looked at from now on."""
        self._others.learn(caller)
        return NodeReport(self._node(), tuple(self._others.answering))

    def drain(self, draining: bool) -> Node:
        """See `Policies.drain`."""
        self._policies.drain(draining)
        return self._node()

    def _node(self) -> Node:
        return replace(self._policies.node(), address=self._address, free_memory=self._free_memory())
