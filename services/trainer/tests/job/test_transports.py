"""What every WeightTransport promises, held by each over rollout-service in memory. A new road is a line in ROADS."""

from collections.abc import AsyncIterator

import pytest

from ratchet_kit import policy_id
from ratchet_kit.errors import DataLoss, NotFound, Unavailable
from ratchet_policies import PolicySpec, ensure_ready
from ratchet_policies.fleet import Fleet
from trainer_service.job.policy import deadlines
from trainer_service.job.policy.stream_transport import CHUNK_BYTES, StreamTransport
from trainer_service.job.policy.transport import Weights, WeightTransport

from .rollouts import Rollouts, served

NAME = "run-run_1"
ROADS = [StreamTransport]


def tensor(name: str, data: bytes) -> policy_id.Tensor:
    return policy_id.Tensor(name, "BF16", (len(data) // 2,), data)


BEFORE = Weights.of([tensor("a", bytes(CHUNK_BYTES + 2)), tensor("b", bytes(8))])
AFTER = Weights.of([tensor("a", b"\1" + bytes(CHUNK_BYTES + 1)), tensor("b", bytes(8))])


@pytest.fixture
def service() -> Rollouts:
    return Rollouts()


@pytest.fixture(params=ROADS)
async def road(request: pytest.FixtureRequest, service: Rollouts) -> AsyncIterator[WeightTransport]:
    """With the policy loaded."""
    async with served(service) as target, Fleet.of(target) as engine:
        await ensure_ready(engine, PolicySpec(NAME, "/models/starter"), timeout=deadlines.LEAST)
        yield request.param(engine)


async def test_weights_arrive_byte_for_byte(road: WeightTransport, service: Rollouts):
    sync = await road.send(NAME, BEFORE, step=1)
    assert sync.policy_id == BEFORE.policy_id
    assert {name: one.data for name, one in service.tensors.items()} == {
        name: one.data for name, one in BEFORE.tensors.items()
    }


async def test_with_a_base_the_new_weights_are_there_whatever_was_sent(road: WeightTransport, service: Rollouts):
    await road.send(NAME, BEFORE, step=1)
    sync = await road.send(NAME, AFTER, step=2, base=BEFORE)
    assert sync.policy_id == AFTER.policy_id
    assert sync.sent_bytes <= AFTER.size_bytes
    assert policy_id.compute(service.tensors.values()) == AFTER.policy_id


async def test_the_id_that_the_engine_shows_is_told_and_not_the_one_that_was_meant(
    road: WeightTransport, service: Rollouts
):
    service.lies = True
    assert (await road.send(NAME, BEFORE, step=1)).policy_id == "sha256:other"


async def test_a_policy_that_is_not_there_gets_no_weights(road: WeightTransport, service: Rollouts):
    service.policy = None
    with pytest.raises(NotFound):
        await road.send(NAME, BEFORE, step=1)


async def test_a_policy_that_does_not_have_the_base_gets_all(road: WeightTransport, service: Rollouts):
    await road.send(NAME, AFTER, step=1)
    assert (await road.send(NAME, AFTER, step=2, base=BEFORE)).sent_bytes == AFTER.size_bytes


async def test_changes_that_do_not_arrive_are_lost_data(road: WeightTransport, service: Rollouts):
    await road.send(NAME, BEFORE, step=1)
    service.is_damaged = True
    with pytest.raises(DataLoss):
        await road.send(NAME, AFTER, step=2, base=BEFORE)


async def test_an_engine_that_is_gone_is_a_transient_error():
    async with served(Rollouts()) as target:
        pass
    async with Fleet.of(target) as engine:
        with pytest.raises(Unavailable):
            await StreamTransport(engine).send(NAME, BEFORE, step=1)
