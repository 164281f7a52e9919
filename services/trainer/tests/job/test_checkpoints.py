import json
from pathlib import Path

import pytest

from trainer_service.job.checkpoints import MARKER, Checkpoints


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path)


def write(checkpoints: Checkpoints, step: int, content: bytes = b"") -> Path:
    """A model of one float32 tensor, as verl writes it: with a config that claims bfloat16."""
    model = checkpoints.folder(step) / "actor" / "huggingface"
    model.mkdir(parents=True)
    header = json.dumps({"__metadata__": {}, "w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    data = content or b"%4d" % step
    (model / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    (model / "config.json").write_text('{"dtype": "bfloat16", "attn_implementation": "eager", "hidden_size": 1}')
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
    assert (export / "model.safetensors").read_bytes().endswith(b"   5")


def test_a_repeated_step_replaces_its_export(checkpoints: Checkpoints):
    checkpoints.export(5, write(checkpoints, 5))
    again = checkpoints.export(5, write(checkpoints, 5, b"anew"))
    assert (again / "model.safetensors").read_bytes().endswith(b"anew")


def test_an_export_says_what_dtype_it_holds(checkpoints: Checkpoints):
    target = checkpoints.export(3, write(checkpoints, 3))
    assert json.loads((target / "config.json").read_text()) == {"dtype": "float32", "hidden_size": 1}
