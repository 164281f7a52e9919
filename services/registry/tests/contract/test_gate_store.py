"""What every GateStore promises."""

from datetime import timedelta

import pytest

from ratchet_kit.errors import Aborted, AlreadyExists, FailedPrecondition, Failure, NotFound
from ratchet_kit.statistics import Comparison, Estimate
from ratchet_kit.work import Hold
from registry_service.domain.evidence import Comparisons, Evidence, SetComparison
from registry_service.domain.gate import State
from registry_service.domain.gate_rules import GuardResult
from registry_service.domain.ports import Stores

from ..conftest import NOW
from .values import LEASE, add_ready, add_version, gate, request

LATER = NOW + timedelta(hours=1)
COMPARISON = Comparison(
    Estimate(0.5, 0.25, 0.75),
    Estimate(0.75, 0.5, 1.0),
    Estimate(0.25, 0.125, 0.5),
    0.0002,
    problems=100,
    won=40,
    lost=10,
    clusters=90,
    detectable_difference=0.0625,
    confidence=0.975,
)
EVIDENCE = Evidence(
    Comparisons(COMPARISON, (SetComparison("composed/test", COMPARISON), SetComparison("mbpp", COMPARISON))), tries=3
)


@pytest.fixture
async def versions(stores: Stores) -> None:
    await add_ready(stores, "a")
    await add_ready(stores, "b")


async def test_a_gate_is_stored_once_under_its_request(stores: Stores, versions: None) -> None:
    first = await stores.gates.create(gate("gate_1"), request())
    assert await stores.gates.create(gate("gate_2"), request()) == first == gate("gate_1")
    assert await stores.gates.find(request()) == first == await stores.gates.get("gate_1")
    with pytest.raises(AlreadyExists, match="used before, for another gate"):
        await stores.gates.find(request(fingerprint="another"))
    with pytest.raises(NotFound, match="gate_2"):
        await stores.gates.get("gate_2")


async def test_a_gate_is_about_versions_that_are_ready(stores: Stores) -> None:
    await add_ready(stores, "a")
    with pytest.raises(NotFound, match="no version 2"):
        await stores.gates.create(gate("gate_1"), request())
    await add_version(stores, "b")
    with pytest.raises(FailedPrecondition, match="starter@2 is not ready"):
        await stores.gates.create(gate("gate_1"), request())


async def test_a_decision_is_stored(stores: Stores, versions: None) -> None:
    await stores.gates.create(gate("gate_1"), request())
    await stores.gates.change("gate_1", lambda gate: gate.claim("a", NOW, LEASE))
    with pytest.raises(Aborted):
        await stores.gates.change("gate_1", lambda gate: gate.decide("b", EVIDENCE, LATER))
    decided = await stores.gates.change("gate_1", lambda gate: gate.decide("a", EVIDENCE, LATER))
    assert (decided.state, decided.comparison, decided.hold) == (State.REFUSED, COMPARISON, Hold())
    assert decided.tries == 3
    assert decided.guards == (GuardResult("mbpp", COMPARISON, passed=True),)
    assert await stores.gates.get("gate_1") == decided
    with pytest.raises(FailedPrecondition, match="is refused"):
        await stores.gates.change("gate_1", lambda gate: gate.claim("a", NOW, LEASE))


async def test_a_failure_is_stored(stores: Stores, versions: None) -> None:
    await stores.gates.create(gate("gate_1"), request())
    failure = Failure("NOT_FOUND", "there is no evaluation eval_2")
    await stores.gates.change("gate_1", lambda gate: gate.claim("a", NOW, LEASE).fail("a", failure, LATER))
    stored = await stores.gates.get("gate_1")
    assert (stored.state, stored.failure, stored.end_time) == (State.FAILED, failure, LATER)


async def test_gates_are_listed_newest_first(stores: Stores, versions: None) -> None:
    for id in ("gate_1", "gate_2", "gate_3"):
        await stores.gates.create(gate(id), request(id))
    assert [gate.id for gate in await stores.gates.page("starter", 2, None)] == ["gate_3", "gate_2"]
    assert [gate.id for gate in await stores.gates.page("starter", 2, "gate_2")] == ["gate_1"]
    with pytest.raises(NotFound):
        await stores.gates.page("nobody", 2, None)


async def test_what_waits_is_undecided_and_held_by_nobody_who_lives(stores: Stores, versions: None) -> None:
    for id in ("gate_1", "gate_2", "gate_3", "gate_4"):
        await stores.gates.create(gate(id), request(id))
    await stores.gates.change("gate_1", lambda gate: gate.claim("a", LATER, LEASE))
    await stores.gates.change("gate_2", lambda gate: gate.claim("a", NOW, LEASE))
    await stores.gates.change("gate_3", lambda gate: gate.claim("a", NOW, LEASE).decide("a", EVIDENCE, NOW))
    assert [gate.id for gate in await stores.gates.waiting(LATER)] == ["gate_2", "gate_4"]
