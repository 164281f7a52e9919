"""Samples reach the artifact store, whenever that answers, and a run never fails for them."""

import threading
from pathlib import Path

import pytest

from ratchet_kit.storage import Folder
from trainer_service.domain.run.sample import Sample, Wanted
from trainer_service.job.samples import sample_files
from trainer_service.job.samples.sample_log import SampleLog

from ..rows_of_samples import row


def kept(folder: Path) -> dict[str, list[int]]:
    """File -> the attempts of its rows."""
    return {
        file.name: [one.attempt for one in sample_files.read(file.open("rb"), Wanted())]
        for file in sorted(folder.glob("*.parquet"))
    }


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "artifacts" / "samples" / "run_1"


def test_each_step_is_moved_to_the_store(tmp_path: Path, store: Path) -> None:
    samples = SampleLog(tmp_path / "run", str(store))
    for step in (1, 2):
        samples.keep(step, lambda step=step: [row(step), row(step, 1)]).result(5)  # type: ignore[misc]
    samples.close()
    assert kept(store) == {"step-000001.parquet": [1, 1], "step-000002.parquet": [1, 1]}
    assert kept(tmp_path / "run/samples") == {}
    assert set(samples.metrics()) == {"time_samples_s"}


def test_without_a_store_they_stay_in_the_folder_of_the_run(tmp_path: Path) -> None:
    samples = SampleLog(tmp_path, "")
    samples.keep(1, lambda: [row()])
    samples.close()
    assert kept(tmp_path / "samples") == {"step-000001.parquet": [1]}
    assert set(samples.metrics()) == {"time_samples_s"}


def test_what_a_store_that_was_away_has_missed_comes_later(tmp_path: Path, store: Path) -> None:
    store.parent.mkdir(parents=True)
    store.write_text("a file where its folder should be")
    first = SampleLog(tmp_path / "run", str(store))
    for step in (1, 2, 3):
        first.keep(step, lambda step=step: [row(step)]).result(5)  # type: ignore[misc]
    first.close()
    assert len(kept(tmp_path / "run/samples")) == 3
    assert first.metrics()["samples_waiting"] == 2  # the last one may be under way
    store.unlink()
    second = SampleLog(tmp_path / "run", str(store))
    second.keep(3, lambda: [row(3, attempt=2)])  # repeated
    second.close()
    assert kept(store) == {
        "step-000001.parquet": [1],
        "step-000002.parquet": [1],
        "step-000003.parquet": [2],
    }


def test_a_store_that_hangs_holds_up_no_step(tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()

    def put(folder: Folder, name: str, source: Path) -> None:
        answer.wait(20)

    monkeypatch.setattr(Folder, "put", put)
    samples = SampleLog(tmp_path, str(store))
    for step in (1, 2):
        samples.keep(step, lambda step=step: [row(step)]).result(5)  # type: ignore[misc]
    assert len(kept(tmp_path / "samples")) == 2
    answer.set()
    samples.close()


def test_what_cannot_be_kept_is_counted_and_nothing_is_raised(tmp_path: Path) -> None:
    def broken() -> list[Sample]:
        raise ValueError("no text")

    (tmp_path / "samples").write_text("a file where the folder should be")
    samples = SampleLog(tmp_path, "")
    samples.keep(1, lambda: [row()]).result(5)
    samples.keep(2, broken).result(5)
    samples.close()
    assert samples.metrics()["samples_lost"] == 2
