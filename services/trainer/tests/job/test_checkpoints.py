import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import fsspec
import pytest

from ratchet_kit import storage
from ratchet_kit.errors import NotFound, ResourceExhausted, Unavailable
from ratchet_kit.storage import Folder
from ratchet_testing.s3_server import BUCKET, s3_server
from trainer_service.job.run.checkpoints import MARKER, Checkpoints, Saved


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path, attempt=2)


def write(checkpoints: Checkpoints, step: int, content: bytes = b"") -> Path:
    """A model of one float32 tensor."""
    model = checkpoints.folder(step) / "actor" / "huggingface"
    model.mkdir(parents=True)
    header = json.dumps({"__metadata__": {}, "w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    data = content or b"%4d" % step
    (model / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    (model / "config.json").write_text("{}")
    return model


def test_no_checkpoint_to_resume_from(checkpoints: Checkpoints):
    assert checkpoints.latest() is None


def step_of(saved: Saved | None) -> int:
    assert saved is not None
    return saved.step


def test_a_half_written_checkpoint_is_none_and_removed_by_the_next_attempt(checkpoints: Checkpoints, tmp_path: Path):
    write(checkpoints, 5)
    checkpoints.complete(5)
    write(checkpoints, 10)
    assert step_of(checkpoints.latest()) == 5
    following = Checkpoints(tmp_path, attempt=3)
    following.sweep()
    assert step_of(following.latest()) == 5
    assert not checkpoints.folder(10).exists()


def test_a_checkpoint_has_the_tokens_that_were_trained_on(checkpoints: Checkpoints):
    write(checkpoints, 5)
    checkpoints.complete(5, 1234)
    latest = checkpoints.latest()
    assert latest
    assert latest.tokens == 1234
    (latest.folder / MARKER).write_text('{"step": 5}')  # one of old
    assert latest.tokens == 0


def test_an_attempt_goes_on_from_the_one_before_and_then_replaces_it(checkpoints: Checkpoints, tmp_path: Path):
    first = Checkpoints(tmp_path, attempt=1)
    write(first, 5)
    first.complete(5)
    assert checkpoints.latest() == Saved(1, 5, first.folder(5))
    write(checkpoints, 6)
    assert step_of(checkpoints.latest()) == 5
    checkpoints.complete(6)
    assert checkpoints.latest() == Saved(2, 6, checkpoints.folder(6))
    assert not first.folder(5).exists()


def test_an_attempt_that_lives_on_harms_nothing_of_the_next(checkpoints: Checkpoints, tmp_path: Path):
    write(checkpoints, 5)
    checkpoints.complete(5)
    write(checkpoints, 6)
    old = Checkpoints(tmp_path, attempt=1)
    write(old, 9)
    old.complete(9)
    old.sweep()
    assert checkpoints.latest() == Saved(2, 5, checkpoints.folder(5))
    assert checkpoints.folder(6).exists()
    assert step_of(Checkpoints(tmp_path, attempt=3).latest()) == 5


def test_one_complete_checkpoint_is_kept(checkpoints: Checkpoints):
    for step in (5, 10):
        write(checkpoints, step)
        checkpoints.complete(step)
    assert step_of(checkpoints.latest()) == 10
    assert not checkpoints.folder(5).exists()
    assert (checkpoints.folder(10) / MARKER).is_file()


def test_a_checkpoint_needs_as_much_space_as_the_last_one(checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(storage, "free_bytes", lambda folder: 500_000_000)
    checkpoints.require_space()
    write(checkpoints, 5, content=bytes(100_000_000))
    checkpoints.complete(5)
    checkpoints.require_space()
    monkeypatch.setattr(storage, "free_bytes", lambda folder: 50_000_000)
    with pytest.raises(ResourceExhausted, match=r"100\d+ bytes are to be written, .* 50000000 are, so \d+ are missing"):
        checkpoints.require_space()


def test_the_first_checkpoint_needs_space_for_the_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "free_bytes", lambda folder: 300_000_000)
    Checkpoints(tmp_path, 1, first_bytes=10_000_000).require_space()
    with pytest.raises(ResourceExhausted, match="100000000 bytes are to be written"):
        Checkpoints(tmp_path, 1, first_bytes=100_000_000).require_space()


def test_the_space_of_a_checkpoint_counts_the_model_that_was_moved_out_of_it(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
):
    model = write(checkpoints, 5, content=bytes(100_000_000))
    size = checkpoints.size(5)
    checkpoints.export(5, model)
    checkpoints.complete(5, size=size)
    monkeypatch.setattr(storage, "free_bytes", lambda folder: 50_000_000)
    with pytest.raises(ResourceExhausted, match=r"100\d+ bytes are to be written"):
        checkpoints.require_space()


@pytest.fixture(params=["memory", pytest.param("s3", marks=pytest.mark.integration)])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpoints:
    """Checkpoints that are copied to an object store."""
    url = request.getfixturevalue("s3_url") if request.param == "s3" else f"memory://{uuid4().hex}"
    return Checkpoints(tmp_path / "one", 2, url)


def on_another_disk(checkpoints: Checkpoints) -> Checkpoints:
    """The next attempt."""
    return replace(checkpoints, work_dir=checkpoints.work_dir.with_name("other"), attempt=checkpoints.attempt + 1)


def test_a_lost_disk_costs_no_checkpoint(stored: Checkpoints) -> None:
    for step in (5, 10):
        write(stored, step)
        stored.complete(step, 100 * step)
    following = on_another_disk(stored)
    found = following.resume()
    assert found
    assert (found.attempt, found.step, found.tokens) == (2, 10, 1000)
    assert (found.folder / "actor/huggingface/model.safetensors").read_bytes().endswith(b"  10")
    write(following, 12)
    following.complete(12)
    assert (step_of(stored.resume()), step_of(replace(following, attempt=4).resume())) == (10, 12)
    copies = Folder(stored.export_uri).child("checkpoints").sizes()
    assert {name.partition("/")[0] for name in copies} == {"attempt-3-step-12"}  # one is kept


def test_a_copy_that_is_not_whole_is_none(stored: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    write(stored, 5)
    stored.complete(5)
    write(stored, 10)

    def torn(self: Folder, name: str, data: bytes) -> None:
        raise Unavailable("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "write", torn)  # all but its end is there
        with pytest.raises(Unavailable):
            stored.complete(10)
    assert step_of(on_another_disk(stored).resume()) == 5
    assert step_of(stored.latest()) == 5  # it counts nowhere before it is in the store
    stored.complete(10)
    assert step_of(on_another_disk(stored).resume()) == 10


def test_a_copy_that_is_being_removed_is_none(stored: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    write(stored, 5)
    stored.complete(5)
    write(stored, 10)
    delete = Folder.delete

    def torn(self: Folder) -> None:
        delete(self)
        raise Unavailable("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "delete", torn)
        with pytest.raises(Unavailable):
            stored.complete(10)
    copy = Folder(stored.export_uri).child("checkpoints/attempt-2-step-5")
    assert sorted(copy.sizes()) == ["actor/huggingface/config.json", "actor/huggingface/model.safetensors"]
    assert step_of(on_another_disk(stored).resume()) == 10


@pytest.mark.integration
def test_a_store_that_is_killed_amid_a_save_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "s3"
    kept.mkdir()
    checkpoints = Checkpoints(tmp_path / "one", 2, f"s3://{BUCKET}/run")
    write(checkpoints, 5)
    uploaded, killed, marking = threading.Event(), threading.Event(), Folder.write

    def mark(self: Folder, name: str, data: bytes) -> None:
        uploaded.set()
        assert killed.wait(60)
        marking(self, name, data)

    with ThreadPoolExecutor() as pool:
        with s3_server(kept) as environment:
            found_by(environment, monkeypatch)
            checkpoints.complete(5)
            write(checkpoints, 10)
            monkeypatch.setattr(Folder, "write", mark)
            saving = pool.submit(checkpoints.complete, 10)
            assert uploaded.wait(60)
        killed.set()
        with pytest.raises(Unavailable):
            saving.result()
    with s3_server(kept) as environment:
        found_by(environment, monkeypatch)
        copies = Folder(checkpoints.export_uri).child("checkpoints")
        assert copies.names() == ["attempt-2-step-10", "attempt-2-step-5"]
        assert step_of(on_another_disk(checkpoints).resume()) == 5
        checkpoints.complete(10)
        assert step_of(on_another_disk(checkpoints).resume()) == 10


def found_by(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.fixture(params=["run", "local", "memory"])
def exporting(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpoints:
    """Checkpoints whose exports are kept in the run's folder, in another one, or behind a URL."""
    places = {"run": "", "local": str(tmp_path / "exported"), "memory": f"memory://{uuid4().hex}"}
    return Checkpoints(tmp_path, 2, places[request.param])


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


def test_a_step_that_an_attempt_repeats_has_an_export_of_its_own(exporting: Checkpoints):
    old = replace(exporting, attempt=1)
    first = old.export(5, write(old, 5, b"once"))
    again = exporting.export(5, write(exporting, 5, b"anew"))
    assert Folder(first).read("model.safetensors").endswith(b"once")
    exporting.remove_repeated_exports(5)
    assert Folder(again).read("model.safetensors").endswith(b"anew")
    with pytest.raises(NotFound):
        Folder(first).sizes()
