"""The config that verl gets, on record."""

from types import SimpleNamespace
from typing import Any

import pytest
import yaml

pytest.importorskip("verl")

from trainer_service.job.run.record import Record
from trainer_service.verl.config import rl_overrides, sft_overrides
from trainer_service.verl.runtime import compose_config, put_on_record

pytestmark = pytest.mark.verl


def test_it_is_whole_and_can_be_read(make_job: Any, make_complete_spec: Any) -> None:
    for name, overrides, algorithm in (
        ("ppo_trainer", rl_overrides, "grpo"),
        ("sft_trainer_engine", sft_overrides, "sft"),
    ):
        spec = make_complete_spec(algorithm=algorithm, profile_steps=(2,) if algorithm == "grpo" else ())
        job = make_job(spec, attempt=3)
        session: Any = SimpleNamespace(job=job, record=Record(job.work_dir))
        put_on_record(session, compose_config(name, overrides(job, None)))
        text = (job.work_dir / "record/config/attempt-3.yaml").read_text()
        config = yaml.safe_load(text)
        assert config["trainer"]["experiment_name"] == "run_1"
        assert "${" not in text
        if algorithm == "grpo":
            assert config["global_profiler"]["steps"] == [2]
            profiler = config["actor_rollout_ref"]["actor"]["profiler"]
            assert (profiler["enable"], profiler["tool"]) == (True, "torch")
            assert profiler["save_path"] == str(Record(job.work_dir).profile)
