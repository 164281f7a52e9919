from pathlib import Path

import pytest
from pydantic import ValidationError

from trainer_service.job.config import ENV, JobConfig


def test_the_environment_carries_the_whole_config(job):
    config = job()
    assert JobConfig.from_env(config.to_env()) == config
    assert JobConfig.from_env(config.to_env()).run_spec() == config.run_spec()


def test_a_path_may_stand_for_the_document(job, tmp_path: Path):
    config = job()
    file = tmp_path / "job.json"
    file.write_text(config.model_dump_json())
    assert JobConfig.from_env({ENV: str(file)}) == config


def test_an_unknown_field_is_refused(job):
    with pytest.raises(ValidationError, match="atempt"):
        job(atempt=2)


def test_bfloat16_may_differ_more_between_trainer_and_engine(job):
    assert job().probability_gap_limit == 0.01
    assert job(dtype="bfloat16").probability_gap_limit == 0.05
    assert job(max_probability_gap=0.2).probability_gap_limit == 0.2
