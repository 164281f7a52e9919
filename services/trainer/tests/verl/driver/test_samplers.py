"""A curriculum as verl's sampler: its state goes with the data position."""

import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

from torchdata.stateful_dataloader import StatefulDataLoader

from trainer_service.domain.spec.curriculum import Curriculum, Kind
from trainer_service.job.samples.curriculum import Draws, Evidence
from trainer_service.verl.driver.samplers import CurriculumSampler

pytestmark = pytest.mark.verl

PLACES = list(range(20))


def loading() -> tuple[Draws, StatefulDataLoader]:
    draws = Draws(Curriculum(0.1), [Kind(1)] * len(PLACES), seed=3)
    loader = StatefulDataLoader(PLACES, batch_size=4, drop_last=True, num_workers=0, sampler=CurriculumSampler(draws))
    return draws, loader


def step(draws: Draws, batches) -> list[int]:
    drawn = next(batches).tolist()
    draws.learn([Evidence(place, place / 20, 0.25 if place % 2 else 0.0, 8, place / 20) for place in drawn])
    return drawn


def test_a_loader_that_is_restored_goes_on_as_if_it_had_not_stopped():
    draws, loader = loading()
    batches = iter(loader)
    before = [step(draws, batches) for _ in range(7)]  # more than a pass
    state = loader.state_dict()
    expected = [step(draws, batches) for _ in range(7)]
    draws, loader = loading()
    loader.load_state_dict(state)
    batches = iter(loader)
    assert [step(draws, batches) for _ in range(7)] == expected
    assert expected != before
