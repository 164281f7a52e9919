from datetime import timedelta

from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.job.policy import deadlines


def test_a_small_run_has_ten_minutes() -> None:
    assert deadlines.generation(Hyperparameters(max_response_tokens=72), waiting=16 * 8) < timedelta(minutes=14)
    assert deadlines.weights(8_000_000) < timedelta(minutes=11)


def test_long_completions_of_a_large_batch_have_hours() -> None:
    """1,024 sequences of 8,192 tokens take 70 minutes at 2,000 tokens/s."""
    hyper = Hyperparameters(max_response_tokens=8192)
    assert deadlines.generation(hyper, waiting=128 * 8) > timedelta(minutes=70)


def test_seventy_billion_parameters_are_sent_in_time() -> None:
    """140 GB take 30 minutes at 80 MB/s."""
    assert deadlines.weights(140 * 10**9) > timedelta(minutes=30)
