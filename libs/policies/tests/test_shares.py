from datetime import timedelta

from ratchet_policies import EngineShare, EngineUsage


def used(seconds: float, tokens: int) -> EngineUsage:
    gpu = timedelta(seconds=2 * seconds)
    return EngineUsage(gpu, timedelta(seconds=seconds), tokens, gpu / 4, gpu)


def test_a_policy_of_its_own_is_all_the_callers_its_start_included():
    share = EngineShare()
    share.made(5, 5)
    share.seen(used(30, 10))
    share.seen(used(40, 10))
    assert (share.cpu_time, share.gpu_time) == (timedelta(seconds=40), timedelta(seconds=80))
    assert (share.prompt_tokens, share.completion_tokens) == (5, 5)


def test_one_that_answers_others_too_is_shared_by_tokens():
    share = EngineShare(used(1000, 100_000), alone=False)
    share.made(10, 15)
    share.seen(used(1010, 100_100))
    assert share.cpu_time == timedelta(seconds=2.5), "a quarter of the tokens"
    assert (share.gpu_busy_time, share.gpu_watched_time) == (timedelta(seconds=1.25), timedelta(seconds=5))
    share.seen(used(1020, 100_200))
    assert share.cpu_time == timedelta(seconds=2.5), "others' alone"


def test_a_node_that_was_started_again_counts_from_nothing():
    share = EngineShare()
    share.seen(used(30, 10))
    share.seen(used(4, 2))
    assert share.cpu_time == timedelta(seconds=34)
