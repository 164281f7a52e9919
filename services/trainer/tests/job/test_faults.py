import math

import pytest

from ratchet_kit.errors import DataLoss, InvalidArgument, Unavailable
from trainer_service.domain.spec.spec import ProblemSetRef
from trainer_service.job.run.faults import check_data, check_faults, check_probabilities, check_versions


@pytest.mark.parametrize("gap", [0.0, 2.5e-7, 0.01])
def test_an_engine_with_the_trained_weights_is_no_alarm(gap: float):
    check_probabilities(3, gap, 0.01)


@pytest.mark.parametrize("gap", [0.0101, 0.18, math.nan])
def test_an_engine_with_other_weights_is_one(gap: float):
    with pytest.raises(DataLoss, match="step 3: the rollout engine does not compute with the trained weights"):
        check_probabilities(3, gap, 0.01)


def test_a_few_faults_are_masked():
    check_faults(1, 6, 128, 0.05, Unavailable("no lane"), has_stepped=False)


def test_more_stop_the_attempt():
    with pytest.raises(Unavailable, match="step 1: 7 of 128 samples are lost, more than 5%: no lane"):
        check_faults(1, 7, 128, 0.05, Unavailable("no lane"), has_stepped=False)


def test_what_each_attempt_would_meet_at_its_first_step_is_no_fault_of_the_platform():
    broken = InvalidArgument("the reward mine ended in RUNTIME_ERROR: NameError")
    with pytest.raises(InvalidArgument, match=r"128 of 128 samples are lost, .*: the reward mine ended in RUNTIME_ERR"):
        check_faults(1, 128, 128, 0.05, broken, has_stepped=False)
    with pytest.raises(Unavailable, match="the reward mine ended in"):
        check_faults(9, 128, 128, 0.05, broken, has_stepped=True)


def test_what_is_trained_on_is_what_is_on_record():
    recorded = ProblemSetRef("mine.jsonl", digest="sha256:a")
    check_data(recorded, "sha256:a")
    check_data(ProblemSetRef("mine.jsonl"), "sha256:b")
    with pytest.raises(DataLoss, match=r"mine\.jsonl has changed since the run was created: it was sha256:a"):
        check_data(recorded, "sha256:b")


IDS = {4: "sha256:four", 5: "sha256:five"}


def sampled(*weights: object) -> dict[str, object]:
    """By weights: of which step, and their policy id."""
    return {"weights": [*zip(weights[::2], weights[1::2], strict=True)]}


def test_samples_are_of_the_weights_before_the_step_or_of_those_one_older_where_that_may_be():
    fresh, stale = sampled(5, "sha256:five"), sampled(4, "sha256:four")
    assert check_versions(6, [fresh, fresh], IDS, max_staleness=0)
    assert not check_versions(6, [stale, stale], IDS, max_staleness=1)
    assert not check_versions(6, [fresh, stale], IDS, max_staleness=1)
    assert not check_versions(6, [sampled(4, "sha256:four", 5, "sha256:five")], IDS, max_staleness=2)


@pytest.mark.parametrize(
    ("sample", "max_staleness", "reason"),
    [
        (sampled(4, "sha256:four"), 0, "step 6: a sample is of the weights after step 4, which is too old"),
        (sampled(3, "sha256:three"), 1, "of the weights after step 3"),
        (sampled(6, "sha256:six"), 1, "of the weights after step 6"),
        (sampled(4, "sha256:five"), 1, "of sha256:five, and the weights after step 4 are sha256:four"),
        (sampled(5, "sha256:five", 3, "sha256:three"), 1, "of the weights after step 3"),
        (sampled(5, "sha256:four"), 1, "of sha256:four, and the weights after step 5 are sha256:five"),
    ],
)
def test_a_sample_of_other_weights_than_its_own_is_not_learned_from(sample, max_staleness: int, reason: str):
    with pytest.raises(DataLoss, match=reason):
        check_versions(6, [sampled(5, "sha256:five"), sample], IDS, max_staleness)
