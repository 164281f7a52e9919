from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from trainer_service.job.run.config import ENV, JobConfig


def test_the_environment_carries_the_whole_config(make_job: Any) -> None:
    config = make_job()
    assert JobConfig.from_env(config.to_env()) == config
    assert JobConfig.from_env(config.to_env()).spec == config.spec


def test_a_path_may_stand_for_the_document(make_job: Any, tmp_path: Path) -> None:
    config = make_job()
    file = tmp_path / "job.json"
    file.write_text(config.model_dump_json())
    assert JobConfig.from_env({ENV: str(file)}) == config


def test_an_unknown_field_is_refused(make_job: Any) -> None:
    with pytest.raises(ValidationError, match="atempt"):
        make_job(atempt=2)


def test_bfloat16_may_differ_more_between_trainer_and_engine(make_job: Any) -> None:
    assert make_job().probability_gap_limit == 0.01
    assert make_job(dtype="bfloat16").probability_gap_limit == 0.05


def test_a_share_of_all_samples_is_no_limit(make_job: Any) -> None:
    with pytest.raises(ValidationError, match="max_fault_share"):
        make_job(max_fault_share=1.0)


def test_the_spec_names_algorithm_and_device(make_job: Any, make_complete_spec: Any) -> None:
    job = make_job(make_complete_spec(algorithm="ppo"))
    assert (job.algorithm.has_critic, job.is_cuda) == (True, False)
