"""What runs take of a cluster, and whether it has room for one more. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from trainer_service.domain.run.run import Run
from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.limits import GIB

_CONTROLLERS = 3
"""CPUs that verl reserves for a run of RL beside one for each rank: two actors of its queue, a task at the start."""
_ANY = 1e9


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster, by all that it has: what Ray counts, taken or not."""

    cpus: float
    accelerators: float
    id: str = ""
    address: str = ""


class Bundle(NamedTuple):
    """Taken of one machine together."""

    cpus: int
    accelerators: int


@dataclass(frozen=True, slots=True)
class Demand:
    """What a run takes while its job runs."""

    nodes: int
    accelerators_per_node: int
    """And as many CPUs. Those of one node are on one machine."""
    controllers: int
    """CPUs, anywhere."""
    policies: int
    """Places of the rollout service."""
    memory_bytes: int
    """Of this machine; 0 on accelerators with a memory of their own, which nobody shares."""

    @classmethod
    def of(cls, run: Run) -> "Demand":
        resources, algorithm = run.spec.resources, ALGORITHMS[run.spec.algorithm]
        generates = not algorithm.takes_examples and not algorithm.takes_pairs
        return cls(
            nodes=run.nodes or resources.nodes or 1,
            accelerators_per_node=resources.ranks_per_node,
            controllers=_CONTROLLERS if generates else 1,
            policies=(resources.engines or 1)
            if generates
            else int(algorithm.takes_pairs and run.spec.validation_problems is not None),
            memory_bytes=run.forecast.peak_bytes if run.forecast and resources.device == "cpu" else 0,
        )

    @property
    def accelerators(self) -> int:
        return self.nodes * self.accelerators_per_node

    @property
    def bundles(self) -> Sequence[Bundle]:
        """Parts that have to be on one machine each: the ranks of each node, and each controller."""
        ranks = Bundle(self.accelerators_per_node, self.accelerators_per_node)
        return [ranks] * self.nodes + [Bundle(1, 0)] * self.controllers

    def __str__(self) -> str:
        if self.nodes > 1:
            return f"{self.nodes} nodes with {_count(self.accelerators_per_node, 'accelerator')} each"
        return _count(self.accelerators_per_node, "accelerator")


@dataclass(frozen=True, slots=True)
class Room:
    """What all runs together may take at one place."""

    runs: int
    nodes: Sequence[Node]
    policies: Sequence[int] | None = None
    """Places of each node of rollout-service. None: not known, and nothing waits for them."""
    memory_bytes: int | None = None

    def lacks(self, one: Demand, taken: Sequence[Demand]) -> str:
        """What there is too little of for `one` beside those that are there, as it goes on after "waits for"; empty
        where it fits."""
        every = [*taken, one]
        if len(every) > self.runs:
            return f"one of the {self.runs} places for runs" if self.runs > 1 else "the one place for runs"
        if not _fit(every, [replace(node, cpus=_ANY) for node in self.nodes]):
            has = sum(node.accelerators for node in self.nodes)
            free = max(0, has - sum(demand.accelerators for demand in taken))
            return f"{one}: {free:g} of {has:g} are free"
        if not _fit(every, self.nodes):
            return f"CPUs: Ray has {sum(node.cpus for node in self.nodes):g} in all, and runs reserve some of them"
        if one.policies and self.policies is not None and not _have_places(every, self.policies):
            if one.policies == 1:
                return f"a place in the rollout service, which has {sum(self.policies)} for training"
            return f"{one.policies} nodes of the rollout service: their places for training are {list(self.policies)}"
        memory = sum(demand.memory_bytes for demand in every)
        if one.memory_bytes and self.memory_bytes is not None and memory > self.memory_bytes:
            free = max(0, self.memory_bytes - memory + one.memory_bytes)
            have = f"{free / GIB:.1f} of {self.memory_bytes / GIB:.1f}"
            return f"{one.memory_bytes / GIB:.1f} GiB of memory: {have} are free"
        return ""

    def is_too_small_for(self, one: Demand) -> str:
        """As `lacks`, of the place when nothing is there: only another node helps. What others load in the rollout
        service passes."""
        return replace(self, policies=None).lacks(one, ())


def _have_places(demands: Sequence[Demand], places: Sequence[int]) -> bool:
    """True if each demand has a place on as many nodes as it has policies: the condition of Gale and Ryser."""
    wanted = sorted((demand.policies for demand in demands), reverse=True)
    return all(sum(wanted[:first]) <= sum(min(place, first) for place in places) for first in range(1, len(wanted) + 1))


def _fit(demands: Sequence[Demand], nodes: Sequence[Node]) -> bool:
    """Whether all of them can be placed: the largest first, each where it fits tightest."""
    groups = [demand.accelerators_per_node for demand in demands for _ in range(demand.nodes)]
    left = [[node.accelerators, node.cpus] for node in nodes]
    for size in sorted(groups, reverse=True):
        open_to = [one for one in left if min(one) >= size]
        if not open_to:
            return False
        tightest = min(open_to)
        tightest[0] -= size
        tightest[1] -= size
    return sum(int(cpus) for _, cpus in left) >= sum(one.controllers for one in demands)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
