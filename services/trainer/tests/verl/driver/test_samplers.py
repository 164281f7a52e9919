"""A curriculum, and a set that grows, as verl's samplers: their state goes with the data position."""

import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

from torchdata.stateful_dataloader import StatefulDataLoader

from trainer_service.domain.spec.curriculum import Curriculum, Kind
from trainer_service.job.samples.curriculum import Draws, Evidence
from trainer_service.verl.driver.samplers import CurriculumSampler, FollowingSampler

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


def following(*versions: list[int]) -> tuple[FollowingSampler, StatefulDataLoader]:
    """Over the first five problems, and then over these."""
    sampler = FollowingSampler(5, seed=3)
    for places in versions:
        sampler.follow(places)
    return sampler, StatefulDataLoader(PLACES, batch_size=2, drop_last=True, num_workers=0, sampler=sampler)


def test_a_newer_version_comes_among_the_rest_of_the_pass_also_after_a_restart():
    sampler, loader = following()
    batches = iter(loader)
    drawn = [*next(batches).tolist(), *next(batches).tolist()]
    (left,) = set(range(5)) - set(drawn)
    before = loader.state_dict()
    second = [place for place in range(8) if place != drawn[0]]  # three are new, and one is no more in it
    sampler.follow(second)
    rest = [*next(batches).tolist(), *next(batches).tolist()]
    assert set(rest) == {left, 5, 6, 7}
    after = loader.state_dict()
    whole = [place for _ in range(7) for place in next(batches).tolist()]
    assert sorted(whole[:7]) == sorted(whole[7:]) == second
    assert whole[:7] != whole[7:]
    _, loader = following(second)
    loader.load_state_dict(before)
    batches = iter(loader)
    assert [*next(batches).tolist(), *next(batches).tolist()] == rest
    _, loader = following(second)
    loader.load_state_dict(after)
    batches = iter(loader)
    assert [place for _ in range(7) for place in next(batches).tolist()] == whole
