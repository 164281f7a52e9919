import json
from pathlib import Path
from uuid import uuid4

import pytest

from ratchet_kit import storage
from ratchet_kit.errors import ResourceExhausted
from ratchet_kit.storage import Folder
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


def test_a_checkpoint_needs_as_much_space_as_the_last_one(checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(storage, "free_bytes", lambda folder: 500_000_000)
    checkpoints.require_space()
    write(checkpoints, 5, content=bytes(100_000_000))
    checkpoints.complete(5)
    checkpoints.require_space()
    monkeypatch.setattr(storage, "free_bytes", lambda folder: 50_000_000)
    with pytest.raises(ResourceExhausted, match=r"100\d+ bytes are to be written, 50000000 are free, \d+ are missing"):
        checkpoints.require_space()


@pytest.fixture(params=["run", "local", "memory"])
def exporting(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpoints:
    """Checkpoints whose exports are kept in the run's folder, in another one, or behind a URL."""
    places = {"run": "", "local": str(tmp_path / "exported"), "memory": f"memory://{uuid4().hex}"}
    return Checkpoints(tmp_path, places[request.param])


def test_exports_outlive_their_checkpoint(exporting: Checkpoints):
    export = exporting.export(5, write(exporting, 5))
    exporting.complete(5)
    write(exporting, 10)
    exporting.complete(10)
    assert Folder(export).read("model.safetensors").endswith(b"   5")


def test_a_repeated_step_replaces_its_export(exporting: Checkpoints):
    first = write(exporting, 5)
    (first / "vocab.json").write_text("{}")
    exporting.export(5, first)
    again = exporting.export(5, write(exporting, 5, b"anew"))
    assert Folder(again).read("model.safetensors").endswith(b"anew")
    assert set(Folder(again).sizes()) == {"config.json", "model.safetensors"}


def test_an_export_says_what_dtype_it_holds(exporting: Checkpoints):
    target = exporting.export(3, write(exporting, 3))
    assert json.loads(Folder(target).read("config.json")) == {"dtype": "float32", "hidden_size": 1}
