from itertools import product

from trainer_service.job.policy.seeds import group_seed


def test_a_seed_depends_on_all_that_makes_a_sample():
    parts = product((0, 1), ("train", "validate"), (1, 2), ("p1", "p2"), (0, 1))
    seeds = [group_seed(*each) for each in parts]
    assert len(set(seeds)) == len(seeds) == 32
    assert all(0 <= seed < 2**48 for seed in seeds)


def test_a_seed_is_the_same_in_every_process():
    assert group_seed(7, "train", 3, "p1") == 20990566926060
