import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from ratchet_kit import memory
from trainer_service.settings import Settings


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_ADDRESS", "ARTIFACT_URL", "RATCHET_TRAINER_RUNS_FOLDER", "RATCHET_TRAINER_DEVICE"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_cluster_jobs_run_beside_the_service() -> None:
    settings = Settings(port=1234, runs_folder="/data/runs")
    assert (settings.target, settings.python, settings.job_dtype) == ("127.0.0.1:1234", sys.executable, "float32")
    assert (settings.runs_folder, settings.accelerators) == (Path("/data/runs"), 2)


def test_a_cluster_is_named_by_its_dashboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265/")
    settings = Settings(advertise_target="trainer:8702", device="cuda")
    assert (settings.ray_address, settings.python) == ("http://head:8265", "python")
    assert (settings.target, settings.job_dtype) == ("trainer:8702", "bfloat16")


def test_ranks_are_on_the_gpus_that_the_trainer_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    assert (Settings(device="cuda").accelerators, Settings(device="cuda").ray_environment) == (4, {})
    given = Settings(device="cuda", gpus="2,3")
    assert (given.accelerators, given.ray_environment) == (2, {"CUDA_VISIBLE_DEVICES": "2,3"})


def test_exports_and_samples_go_where_artifacts_are() -> None:
    assert (Settings().exports_uri, Settings().samples_uri) == ("", "")
    given = Settings(artifact_url="s3://bucket/artifacts/")
    assert (given.exports_uri, given.samples_uri) == ("s3://bucket/artifacts/runs", "s3://bucket/artifacts/samples")


def test_what_cannot_work_is_refused_at_the_start() -> None:
    with pytest.raises(ValidationError, match="URL of the cluster's dashboard"):
        Settings(ray_address="head:6379")
    with pytest.raises(ValidationError, match="a folder that jobs can write to"):
        Settings(runs_folder="s3://bucket/runs")
    with pytest.raises(ValidationError, match="max_fault_share"):
        Settings(max_fault_share=1.0)


def test_a_run_may_take_half_of_a_machine_unless_it_is_said() -> None:
    assert Settings().memory_bytes == memory.of_machine() // 2
    assert Settings(memory_gib=6).memory_bytes == 6 << 30
    assert Settings(device="cuda").memory_bytes is None
    assert Settings(ray_address="http://head:8265").memory_bytes is None


def test_trackers_are_those_that_the_operator_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().trackers == ()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://mlflow.example")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "s3cret")
    monkeypatch.setenv("WANDB_API_KEY", "k3y")
    settings = Settings(tensorboard_url="/boards")
    assert settings.trackers == ("mlflow", "tensorboard", "wandb")
    assert settings.mlflow_tracking_token.get_secret_value() == "s3cret"
    assert "s3cret" not in repr(settings)
    assert "k3y" not in repr(settings)
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert Settings().trackers == ("mlflow",)
    with pytest.raises(ValidationError, match="must be the URL of a server"):
        Settings(mlflow_tracking_uri="sqlite:///mlflow.db")


def test_prices_have_one_name_for_all_services(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_PRICES", '{"currency": "EUR", "gpu_hour": 2.5}')
    prices = Settings.read().prices
    assert prices is not None
    assert prices.gpu_hour == 2.5
    monkeypatch.setenv("RATCHET_PRICES", '{"currency": "EUR", "gpu_hours": 2.5}')
    with pytest.raises(SystemExit, match=r"RATCHET_PRICES\.gpu_hours: Extra inputs are not permitted"):
        Settings.read()
