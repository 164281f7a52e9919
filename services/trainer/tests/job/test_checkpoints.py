from pathlib import Path

import pytest

from trainer_service.job.checkpoints import MARKER, Checkpoints


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path)


def write(checkpoints: Checkpoints, step: int) -> Path:
    model = checkpoints.folder(step) / "actor" / "huggingface"
    model.mkdir(parents=True)
    (model / "model.safetensors").write_bytes(b"weights %d" % step)
    return model


def test_no_checkpoint_to_resume_from(checkpoints: Checkpoints):
    assert checkpoints.latest() is None


def test_a_half_written_checkpoint_is_removed(checkpoints: Checkpoints):
    write(checkpoints, 5)
    checkpoints.complete(5)
    write(checkpoints, 10)
    assert checkpoints.latest() == 5
    assert not checkpoints.folder(10).exists()


def test_one_complete_checkpoint_is_kept(checkpoints: Checkpoints):
    for step in (5, 10):
        write(checkpoints, step)
        checkpoints.complete(step)
    assert checkpoints.latest() == 10
    assert not checkpoints.folder(5).exists()
    assert (checkpoints.folder(10) / MARKER).is_file()


def test_exports_outlive_their_checkpoint(checkpoints: Checkpoints):
    export = checkpoints.export(5, write(checkpoints, 5))
    checkpoints.complete(5)
    write(checkpoints, 10)
    checkpoints.complete(10)
    assert (export / "model.safetensors").read_bytes() == b"weights 5"


def test_a_repeated_step_replaces_its_export(checkpoints: Checkpoints):
    checkpoints.export(5, write(checkpoints, 5))
    model = checkpoints.folder(5) / "actor" / "huggingface"
    model.mkdir(parents=True)
    (model / "model.safetensors").write_bytes(b"again")
    assert (checkpoints.export(5, model) / "model.safetensors").read_bytes() == b"again"
