"""Folders of models and sets of problems, as they lie on a disk or behind a URL."""

import json
from pathlib import Path

import fsspec
import pytest

from ratchet_kit.errors import InvalidArgument, NotFound
from trainer_service.adapters.folders import FsspecModelFolders
from trainer_service.adapters.problem_sets import LibraryProblemSets
from trainer_service.domain.platform import BaseModel
from trainer_service.domain.run import RunId
from trainer_service.domain.spec import ProblemSetRef

PROBLEM = {"id": "p/1", "prompt": "Add.", "entry_point": "f", "tests": [{"args": "[1]", "expected": "2"}]}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 256}))
    (folder / "model.safetensors").write_bytes(b"\0" * 10)
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> FsspecModelFolders:
    return FsspecModelFolders(tmp_path / "runs")


async def test_a_local_model_is_named_by_its_absolute_path(
    folders: FsspecModelFolders, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    found = await folders.inspect("model")
    assert found == BaseModel(str(model), str(model), size_bytes=10, max_tokens=256)
    assert await folders.fetch(found, RunId("run_1")) == str(model)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
async def test_a_folder_without_a_model_says_what_is_missing(
    folders: FsspecModelFolders, model: Path, missing: str
) -> None:
    (model / missing).unlink()
    with pytest.raises(NotFound, match="config.json is missing" if missing == "config.json" else "safetensors"):
        await folders.inspect(str(model))


async def test_what_is_no_folder_is_not_found(folders: FsspecModelFolders, model: Path) -> None:
    for uri in (str(model / "nothing"), str(model / "config.json"), "nosuchscheme://bucket/model"):
        with pytest.raises(NotFound):
            await folders.inspect(uri)
    (model / "config.json").write_text("{")
    with pytest.raises(NotFound, match="not JSON"):
        await folders.inspect(str(model))


async def test_a_model_behind_a_url_is_copied_into_the_run(
    folders: FsspecModelFolders, model: Path, tmp_path: Path
) -> None:
    fs = fsspec.filesystem("memory")
    fs.put(f"{model}/", "/bucket/model/", recursive=True)
    found = await folders.inspect("memory://bucket/model")
    assert (found.size_bytes, found.max_tokens) == (10, 256)
    for _ in range(2):  # the next attempt finds it there
        local = await folders.fetch(found, RunId("run_1"))
        assert local == str(tmp_path / "runs" / "run_1" / "base")
        assert (Path(local) / "model.safetensors").read_bytes() == b"\0" * 10


async def test_a_file_of_problems_is_named_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.jsonl").write_text(json.dumps(PROBLEM) + "\n")
    monkeypatch.chdir(tmp_path)
    found = await LibraryProblemSets().look_up(ProblemSetRef("mine.jsonl"))
    assert (found.ref.name, found.size) == (str(tmp_path / "mine.jsonl"), 1)
    assert found.ref.digest.startswith("sha256:")


async def test_a_set_that_is_not_there_or_no_set_is_refused(tmp_path: Path) -> None:
    sets = LibraryProblemSets()
    for name in ("nothing", str(tmp_path / "none.jsonl")):
        with pytest.raises(NotFound):
            await sets.look_up(ProblemSetRef(name))
    for content in ("", "{not json}\n"):
        (tmp_path / "bad.jsonl").write_text(content)
        with pytest.raises(InvalidArgument):
            await sets.look_up(ProblemSetRef(str(tmp_path / "bad.jsonl")))


async def test_a_limit_is_part_of_what_the_digest_is_of() -> None:
    sets = LibraryProblemSets()
    whole = await sets.look_up(ProblemSetRef("basics"))
    part = await sets.look_up(ProblemSetRef("basics", limit=3))
    assert whole.ref.digest != part.ref.digest
    assert (whole.size, part.size, part.ref.limit) == (100, 3, 3)
