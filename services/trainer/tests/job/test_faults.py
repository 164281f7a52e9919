import math

import pytest

from ratchet_kit.errors import DataLoss, Unavailable
from trainer_service.domain.spec import ProblemSetRef
from trainer_service.job.faults import check_data, check_faults, check_probabilities


@pytest.mark.parametrize("gap", [0.0, 2.5e-7, 0.01])
def test_an_engine_with_the_trained_weights_is_no_alarm(gap: float):
    check_probabilities(3, gap, 0.01)


@pytest.mark.parametrize("gap", [0.0101, 0.18, math.nan])
def test_an_engine_with_other_weights_is_one(gap: float):
    with pytest.raises(DataLoss, match="step 3: the rollout engine does not compute with the trained weights"):
        check_probabilities(3, gap, 0.01)


def test_a_few_faults_are_masked():
    check_faults(1, lost=6, expected=128, limit=0.05, reason="no lane")


def test_more_stop_the_attempt():
    with pytest.raises(Unavailable, match="the platform failed 7 of 128 samples, more than 5%: no lane"):
        check_faults(1, lost=7, expected=128, limit=0.05, reason="no lane")


def test_what_is_trained_on_is_what_is_on_record():
    recorded = ProblemSetRef("mine.jsonl", digest="sha256:a")
    check_data(recorded, "sha256:a")
    check_data(ProblemSetRef("mine.jsonl"), "sha256:b")
    with pytest.raises(DataLoss, match=r"mine\.jsonl has changed since the run was created: it was sha256:a"):
        check_data(recorded, "sha256:b")
