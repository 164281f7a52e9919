"""Samples of runs: found by step, problem, verdict and reward; kept in the artifact store."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ratchet_kit.errors import DataLoss, FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.storage import Folder
from ratchet_problems import tables
from trainer_service.adapters.samples import FsspecSamples
from trainer_service.domain.run.run import RunId
from trainer_service.domain.run.sample import SampleId, Wanted
from trainer_service.domain.run.samples import TOGETHER, Samples
from trainer_service.job.samples import sample_files
from trainer_service.job.samples.sample_log import SampleLog

from ..rows_of_samples import row

RUN = RunId("run_1")


@pytest.fixture
def samples(trainer: Any, run: Any) -> Samples:
    """Of 40 steps, each with two problems and two samples of each."""
    trainer.samples.samples = [
        row(step, place, index, reward=(place + index) / 2, verdict="PASSED" if place and index else "FAILED")
        for step in range(1, 41)
        for place in (0, 1)
        for index in (0, 1)
    ]
    return Samples(trainer.store, trainer.samples)


async def test_the_worst_of_the_newest_step_come_first(samples: Samples, run: Any) -> None:
    page = await samples.page(run.id, Wanted(), 5, "")
    assert [str(one.id) for one in page.items] == ["40-0-0", "40-0-1", "40-1-0", "40-1-1", "39-0-0"]
    page = await samples.page(run.id, Wanted(), 2, page.next_page_token)
    assert [str(one.id) for one in page.items] == ["39-0-1", "39-1-0"]


async def test_a_step_is_asked_for_by_verdict_and_reward(samples: Samples, trainer: Any, run: Any) -> None:
    page = await samples.page(run.id, Wanted(step=7, verdict="FAILED", below=0.5), 0, "")
    assert [str(one.id) for one in page.items] == ["7-0-0"]
    assert trainer.samples.looked_at == [7]
    assert not (await samples.page(run.id, Wanted(step=99), 0, "")).items


async def test_one_problem_is_followed_over_all_steps(samples: Samples, trainer: Any, run: Any) -> None:
    page = await samples.page(run.id, Wanted(problem_id="p1", verdict="PASSED"), 3, "")
    assert [one.step for one in page.items] == [40, 39, 38]
    assert len(trainer.samples.looked_at) == TOGETHER  # not all that there are
    seen = list(page.items)
    while page.next_page_token:
        page = await samples.page(run.id, Wanted(problem_id="p1", verdict="PASSED"), 3, page.next_page_token)
        seen += page.items
    assert [one.step for one in seen] == list(range(40, 0, -1))


async def test_one_is_shown_by_its_id(samples: Samples, run: Any) -> None:
    assert (await samples.get(run.id, "12-1-0")).id == SampleId(12, 1, 0)
    for unknown in ("12-1-7", "99-0-0", "", "12", "a-b-c", "9999999999-0-0"):
        with pytest.raises(NotFound, match="has no sample"):
            await samples.get(run.id, unknown)
    with pytest.raises(NotFound, match="run_none"):
        await samples.get(RunId("run_none"), "12-1-0")
    with pytest.raises(InvalidArgument, match="page_token"):
        await samples.page(run.id, Wanted(), 0, "bm9uZQ")


async def test_the_record_of_an_episode_comes_where_it_is_asked_for(trainer: Any, run: Any) -> None:
    trainer.samples.samples = [row(3, 0, 0), row(3, 0, 1, recorded=True, record=b"kept")]
    samples = Samples(trainer.store, trainer.samples)
    assert (await samples.get(run.id, "3-0-1")).record == b""
    assert (await samples.get(run.id, "3-0-1", record=True)).record == b"kept"
    with pytest.raises(FailedPrecondition, match=r"sample 3-0-0 of run .* has no record"):
        await samples.get(run.id, "3-0-0", record=True)


async def test_they_go_with_their_run(trainer: Any, run: Any) -> None:
    trainer.samples.runs = {run.id}
    await trainer.runs.cancel(run.id)
    await trainer.runs.delete(run.id)
    assert trainer.samples.runs == set()


async def test_what_is_written_is_read(tmp_path: Path) -> None:
    rows = [row(), row(place=1, advantage=None, components={}, failed_tests=(), verdict="PASSED", reward=1.0)]
    Folder(str(tmp_path)).write(sample_files.name_of(1), sample_files.write(rows))
    with Folder(str(tmp_path)).opened("step-000001.parquet") as file:
        assert sample_files.read(file, Wanted()) == rows
        assert sample_files.read(file, Wanted(verdict="PASSED")) == rows[1:]
        assert sample_files.read(file, Wanted(below=0.0)) == []
        assert sample_files.read(file, Wanted(id=SampleId(1, 1, 0))) == rows[1:]
    assert [sample_files.step_of(name) for name in ("step-000001.parquet", "step-1.json")] == [1, None]


def test_records_are_read_where_they_are_asked_for_and_tables_of_before_have_none() -> None:
    rows = [row(), row(index=1, recorded=True, record=b"kept")]
    table = io.BytesIO(sample_files.write(rows))
    assert [(one.recorded, one.record) for one in sample_files.read(table, Wanted())] == [(False, b""), (True, b"")]
    assert sample_files.read(table, Wanted(), records=True) == rows
    _, parquet = tables.arrow()
    older = io.BytesIO()
    parquet.write_table(parquet.read_table(table).drop_columns(["recorded", "record"]), older)
    assert sample_files.read(older, Wanted(), records=True) == [rows[0], replace(rows[1], recorded=False, record=b"")]


@pytest.fixture(params=["local", "memory", "none", pytest.param("s3", marks=pytest.mark.integration)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The folder of all samples; empty where they stay with their runs."""
    if request.param == "s3":
        url: str = request.getfixturevalue("s3_url")
        return f"{url}/samples"
    return {"local": str(tmp_path / "artifacts/samples"), "memory": f"memory://{uuid4().hex}", "none": ""}[
        request.param
    ]


async def test_a_job_keeps_what_is_found(tmp_path: Path, store: str) -> None:
    log = SampleLog(tmp_path / "runs" / RUN, f"{store}/{RUN}" if store else "")
    log.keep(1, lambda: [row(1, reward=0.1), row(1, 1, reward=0.9)])
    log.close()
    samples = FsspecSamples(tmp_path / "runs", Folder(store) if store else None)
    assert [str(one.id) for one in await samples.of_step(RUN, 1, Wanted(below=0.5))] == ["1-0-0"]
    assert list((tmp_path / "runs" / RUN / "samples").glob("*")) == [] or not store


async def test_they_are_found_in_the_store_and_before_they_are_there(tmp_path: Path, store: str) -> None:
    kept = Folder(store) if store else None
    samples = FsspecSamples(tmp_path / "runs", kept)
    assert list(await samples.steps(RUN)) == []
    spool = Folder(str(tmp_path / "runs" / RUN / "samples"))
    spool.write(sample_files.name_of(2), sample_files.write([row(2, attempt=2)]))
    if kept:
        kept.child(RUN).write(sample_files.name_of(1), sample_files.write([row(1)]))
        kept.child(RUN).write(sample_files.name_of(2), sample_files.write([row(2, attempt=1)]))
        assert [one.step for one in await samples.of_step(RUN, 1, Wanted())] == [1]
    assert sorted(await samples.steps(RUN)) == ([1, 2] if kept else [2])
    assert [one.attempt for one in await samples.of_step(RUN, 2, Wanted())] == [2]  # the later attempt's
    assert list(await samples.of_step(RUN, 3, Wanted())) == []
    assert list(await samples.with_samples()) == [RUN]
    await samples.remove(RUN)
    assert list(await samples.steps(RUN)) == []
    assert list(await samples.with_samples()) == [] or store.startswith("s3:")  # this server keeps empty folders


async def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    Folder(str(tmp_path / RUN / "samples")).write(sample_files.name_of(1), b"no table")
    with pytest.raises(DataLoss, match="cannot be read"):
        await FsspecSamples(tmp_path).of_step(RUN, 1, Wanted())
