"""Which run is next, and which one makes room for it. Pure.

The turn goes by priority, then by age, and nobody overtakes who waits for room. A run for which the cluster is too
small however empty it is holds up nobody. A run takes room only from those of lower priority: from the fewest, of these
the lowest, of these the newest; and only from one that has done a step in this attempt, so that each attempt brings it
further, and has some time to go.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import combinations

from ratchet_kit.work import Priority
from trainer_service.domain.cluster.capacity import Demand, Room
from trainer_service.domain.run.run import Run, RunId, State, Step

_FEW = 12
"""Of so many runs every choice is looked at."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to become of the runs of one place now."""

    starts: tuple[RunId, ...] = ()
    """QUEUED runs that there is room for."""
    nodes: Mapping[RunId, int] = field(default_factory=dict)
    """Machines of those for which the cluster has become too small."""
    head: Run | None = None
    """The first that there is no room for."""
    preempted: Mapping[RunId, RunId] = field(default_factory=dict)
    """Those that make room, and for which run; any other that was to goes on."""
    waits: Mapping[RunId, str] = field(default_factory=dict)
    """By QUEUED runs, what each waits for, in words."""


def rank(run: Run) -> int:
    """The lower, the sooner."""
    return list(Priority).index(Priority(run.spec.priority))


def holds_room(run: Run) -> bool:
    """One that has done all its steps only has to be registered, and its job ends."""
    return run.state in (State.STARTING, State.RUNNING) and run.trained_time is None


def at(place: str, runs: Sequence[Run]) -> list[Run]:
    """Those of the unfinished runs whose jobs are there."""
    return [run for run in runs if holds_room(run) and run.place == place]


def time_left(run: Run, last: Step | None) -> timedelta | None:
    """By its last step. None where it has done none in this attempt, or that one does not say how long it took."""
    if last is None or last.attempt != run.attempt or run.state is not State.RUNNING:
        return None
    took = last.metrics.get("time_step_s")
    if took is None or not took > 0:
        return None
    steps = float(run.spec.steps - run.step)
    if run.spec.max_tokens is not None and run.tokens:
        steps = min(steps, (run.spec.max_tokens - run.tokens) / (run.tokens / run.step))
    return timedelta(seconds=max(0.0, steps) * took)


def plan(runs: Sequence[Run], place: str, room: Room, spare: Collection[RunId] = ()) -> Plan:
    """`runs`: all that are unfinished. `spare`: those of lower priority that may be stopped now. The runs that are to
    make room already may be stopped in any case."""
    here = at(place, runs)
    taken = [Demand.of(run) for run in here]
    starts: list[RunId] = []
    nodes: dict[RunId, int] = {}
    waits: dict[RunId, str] = {}
    head: Run | None = None
    preempted: dict[RunId, RunId] = {}
    for run in sorted((run for run in runs if run.state is State.QUEUED), key=turn):
        demand = _demand(run, room)
        if small := room.is_too_small_for(demand):
            waits[run.id] = f"a larger cluster, or a node to come back: it needs {small}"
        elif head is not None:
            waits[run.id] = f"{head.id}, which is before it and waits for room"
        elif lacking := room.lacks(demand, taken):
            head = run
            elsewhere = any(other.preempted_by == run.id for other in runs if holds_room(other) and other not in here)
            stopped = () if elsewhere else _stopped(run, here, taken[len(here) :], room, spare)
            preempted = dict.fromkeys(stopped, run.id)
            making = f"; {' and '.join(stopped)} will make room after this step" if stopped else ""
            waits[run.id] = f"{lacking}{_under_way(here)}{making}"
        else:
            starts.append(run.id)
            taken.append(demand)
            if demand != Demand.of(run):
                nodes[run.id] = demand.nodes
    return Plan(tuple(starts), nodes, head, preempted, waits)


def _demand(run: Run, room: Room) -> Demand:
    """All resources of its spec; of one that has done steps, on the most nodes that the cluster still has, if these are
    `min_nodes` or more. One that has done none waits for a cluster that grows."""
    wanted, resources = Demand.of(run), run.spec.resources
    if run.step == 0 or resources.min_nodes is None:
        return wanted
    smaller = (replace(wanted, nodes=nodes) for nodes in range(wanted.nodes, resources.min_nodes - 1, -1))
    shared = (one for one in smaller if run.spec.hyperparameters.is_shared_by(one.accelerators))
    return next((one for one in shared if not room.is_too_small_for(one)), wanted)


def turn(run: Run) -> tuple[object, ...]:
    return rank(run), run.create_time, run.id


def _stopped(
    run: Run, here: Sequence[Run], started: Sequence[Demand], room: Room, spare: Collection[RunId]
) -> tuple[RunId, ...]:
    """Those that make room for it beside `started`; none where all of them together could not. Where those that are to
    make room already suffice, it stays at them."""
    demand = _demand(run, room)

    def suffice(chosen: Collection[Run]) -> bool:
        return not room.lacks(demand, [*(Demand.of(one) for one in here if one not in chosen), *started])

    lower = sorted((one for one in here if rank(one) > rank(run)), key=_last)
    leaving = [one for one in lower if one.preempted_by]
    for some in (leaving, [one for one in lower if one in leaving or one.id in spare]):
        if some and suffice(some):
            return tuple(one.id for one in _fewest(some, suffice))
    return ()


def _fewest(runs: Sequence[Run], suffice: Callable[[Collection[Run]], bool]) -> Collection[Run]:
    """The first of the smallest choices that suffice; of many runs, one that none can be left out of."""
    if len(runs) <= _FEW:
        choices = (chosen for count in range(1, len(runs)) for chosen in combinations(runs, count) if suffice(chosen))
        return next(choices, runs)
    chosen = list(runs)
    for run in reversed(runs):
        without = [one for one in chosen if one is not run]
        if suffice(without):
            chosen = without
    return chosen


def _last(run: Run) -> tuple[object, ...]:
    """The lowest first, and of these the newest."""
    return -rank(run), -run.create_time.timestamp(), run.id


def _under_way(here: Sequence[Run]) -> str:
    if not here:
        return ""
    ids = ", ".join(run.id for run in here[:3]) + (", ..." if len(here) > 3 else "")
    return f" ({ids} {'is' if len(here) == 1 else 'are'} under way)"
