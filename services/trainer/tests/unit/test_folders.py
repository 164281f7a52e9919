"""Folders of models, on a disk or behind a URL."""

import asyncio
import json
import os
import shutil
from pathlib import Path

import fsspec
import pytest

from ratchet_kit.allowed_sources import Places
from ratchet_kit.errors import NotFound, ResourceExhausted, Unavailable
from ratchet_kit.names import Location
from ratchet_kit.storage import Folder
from ratchet_problems.templates import Template
from ratchet_testing.disks import full_disk
from trainer_service.adapters.folders import FsspecModelFolders
from trainer_service.domain.inputs.found import FetchedModel, Shape, Stored
from trainer_service.domain.run.ports import RunFile
from trainer_service.domain.run.run import RunId
from trainer_service.job.run.checkpoints import MARKER


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 256}))
    (folder / "model.safetensors").write_bytes(b"\0" * 10)
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> FsspecModelFolders:
    return FsspecModelFolders(tmp_path / "runs", Places([str(tmp_path), "memory://"]))


async def test_the_shape_of_a_decoder_is_read(folders: FsspecModelFolders, model: Path) -> None:
    config = {"num_hidden_layers": 4, "hidden_size": 192, "intermediate_size": 512, "vocab_size": 512}
    (model / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}))
    assert (await folders.inspect(str(model))).shape == Shape(5, 4, 192, 512, 512)  # ten bytes, two each
    (model / "config.json").write_text(json.dumps({"text_config": config | {"torch_dtype": "float32"}}))
    assert (await folders.inspect(str(model))).shape == Shape(2, 4, 192, 512, 512)
    (model / "config.json").write_text(json.dumps({"n_embd": 192}))
    assert (await folders.inspect(str(model))).shape is None


async def test_a_local_model_is_named_by_its_absolute_path(
    folders: FsspecModelFolders, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    found = await folders.inspect("model")
    assert (found.ref, found.uri) == (Location(str(model)), str(model))
    assert (found.size_bytes, found.max_tokens) == (10, 256)
    assert (found.has_chat_template, found.has_tokenizer) == (False, False)
    assert await folders.fetch(found, RunId("run_1")) == FetchedModel(str(model), model)


async def test_a_reward_model_is_known_by_its_config(folders: FsspecModelFolders, model: Path) -> None:
    (model / "config.json").write_text('{"architectures": ["LlamaForSequenceClassification"], "num_labels": 1}')
    (model / "tokenizer.json").write_text("{}")
    found = await folders.inspect(str(model))
    assert (found.outputs, found.has_tokenizer) == (1, True)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
async def test_a_folder_without_a_model_says_what_is_missing(
    folders: FsspecModelFolders, model: Path, missing: str
) -> None:
    (model / missing).unlink()
    with pytest.raises(NotFound, match="config.json is missing" if missing == "config.json" else "safetensors"):
        await folders.inspect(str(model))


async def test_what_is_no_folder_is_not_found(folders: FsspecModelFolders, model: Path) -> None:
    for uri in (str(model / "nothing"), str(model / "config.json"), "nosuchscheme://bucket/model", "/etc", "~/.ssh"):
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
        fetched = await folders.fetch(found, RunId("run_1"))
        assert fetched == FetchedModel(found.uri, tmp_path / "runs" / "run_1" / "base")
        assert (fetched.path / "model.safetensors").read_bytes() == b"\0" * 10
    beside = await folders.fetch(found, RunId("run_1"), "reward-model")
    assert beside.path == tmp_path / "runs" / "run_1" / "reward-model"
    await folders.tidy(RunId("run_1"))
    assert os.listdir(tmp_path / "runs" / "run_1") == []


async def test_a_chat_template_of_a_runs_own_takes_the_place_of_the_models(
    folders: FsspecModelFolders, model: Path, tmp_path: Path
) -> None:
    written = {"eos_token": "é", "chat_template": "{{ own }}"}
    (model / "tokenizer_config.json").write_text(json.dumps(written))
    (model / "chat_template.json").write_text(json.dumps({"chat_template": "{{ own }}"}))
    (model / "additional_chat_templates").mkdir()
    template = "{% for m in messages %}{{ m.content }}é{% endfor %}"
    found = await folders.inspect(str(model), template)
    assert (found.has_chat_template, found.template) == (True, Template())
    broken = await folders.inspect(str(model), "\n{{ nonesuch.x }}")
    assert broken.template.fault.startswith("raises an error in line 2: ")
    for _ in range(2):  # the next attempt finds it there
        fetched = await folders.fetch(found, RunId("run_1"), chat_template=template)
        assert fetched == FetchedModel(str(model), tmp_path / "runs" / "run_1" / "base-with-template")
        there = ["chat_template.jinja", "config.json", "model.safetensors", "tokenizer_config.json"]
        assert sorted(os.listdir(fetched.path)) == there
        assert (fetched.path / "chat_template.jinja").read_text() == template
        assert json.loads((fetched.path / "tokenizer_config.json").read_text()) == {"eos_token": "é"}
        assert (fetched.path / "model.safetensors").read_bytes() == b"\0" * 10
    assert json.loads((model / "tokenizer_config.json").read_text()) == written
    await folders.tidy(RunId("run_1"))
    assert os.listdir(tmp_path / "runs" / "run_1") == []
    assert (model / "model.safetensors").is_file()


async def test_a_base_that_finds_no_room_leaves_nothing_and_is_fetched_later(
    folders: FsspecModelFolders, model: Path, tmp_path: Path
) -> None:
    fsspec.filesystem("memory").put(f"{model}/", "/bucket/model/", recursive=True)
    found = await folders.inspect("memory://bucket/model")
    with full_disk(), pytest.raises(ResourceExhausted, match="no space is left"):
        await folders.fetch(found, RunId("run_1"))
    assert os.listdir(tmp_path / "runs" / "run_1") == []
    assert (await folders.fetch(found, RunId("run_1"))).path.is_dir()


async def test_two_who_fetch_a_base_at_once_are_not_in_each_others_way(
    folders: FsspecModelFolders, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a driver has lost its run to another without knowing it yet."""
    fsspec.filesystem("memory").put(f"{model}/", "/bucket/model/", recursive=True)
    found = await folders.inspect("memory://bucket/model")
    download = Folder.download

    def slowly(self: Folder, target: Path) -> None:
        target.mkdir(parents=True)
        monkeypatch.setattr(Folder, "download", download)
        monkeypatch.setattr(os, "getpid", lambda: 1)
        asyncio.run(folders.fetch(found, RunId("run_1")))
        download(self, target)

    monkeypatch.setattr(Folder, "download", slowly)
    with pytest.raises(Unavailable):  # the other one was faster: it is there at the next look
        await folders.fetch(found, RunId("run_1"))
    assert os.listdir((await folders.fetch(found, RunId("run_1"))).path.parent) == ["base"]


async def test_a_runs_own_folder_is_removed_with_all_in_it(folders: FsspecModelFolders, tmp_path: Path) -> None:
    (tmp_path / "runs" / "run_1" / "exports").mkdir(parents=True)
    (tmp_path / "runs" / "run_2").mkdir()
    for _ in range(2):
        await folders.remove(RunId("run_1"))
    assert [folder.name for folder in (tmp_path / "runs").iterdir()] == ["run_2"]


@pytest.mark.parametrize("config", ["[]", "null", "1", "[" * 200_000, "{" + " " * (16 << 20) + "}"])
async def test_a_config_that_is_none_is_no_model(folders: FsspecModelFolders, model: Path, config: str) -> None:
    (model / "config.json").write_text(config)
    with pytest.raises(NotFound, match=r"holds no model: config\.json"):
        await folders.inspect(str(model))


@pytest.mark.parametrize("text_config", [None, [], 3, {}])
@pytest.mark.parametrize("room", [None, "256", -5, 1e400])
async def test_what_a_config_says_wrongly_is_not_said(
    folders: FsspecModelFolders, model: Path, text_config: object, room: object
) -> None:
    said = {"text_config": text_config, "max_position_embeddings": room, "num_hidden_layers": room, "hidden_size": 1}
    (model / "config.json").write_text(json.dumps(said | {"intermediate_size": 1, "vocab_size": 1}))
    found = await folders.inspect(str(model))
    assert found.max_tokens == 0


async def test_the_base_of_a_run_without_a_checkpoint_is_left_over_too(
    folders: FsspecModelFolders, tmp_path: Path
) -> None:
    for name in ("run_1/base", "run_2/base-host-17", "run_3/logs", "run_4/checkpoints", "run_4/base"):
        os.makedirs(tmp_path / "runs" / name)
    assert await folders.with_leftovers() == ["run_1", "run_2", "run_4"]
    for run in ("run_1", "run_2", "run_4"):
        await folders.tidy(RunId(run))
    assert await folders.with_leftovers() == []


async def test_tidying_leaves_exports_and_logs(folders: FsspecModelFolders, tmp_path: Path) -> None:
    for name in ("checkpoints/global_step_4", "exports", "logs", "base"):
        (tmp_path / "runs" / "run_1" / name).mkdir(parents=True)
    for _ in range(2):
        await folders.tidy(RunId("run_1"))
    assert sorted(folder.name for folder in (tmp_path / "runs" / "run_1").iterdir()) == ["exports", "logs"]


async def test_tidying_removes_copies_of_checkpoints_and_leaves_exports(model: Path, tmp_path: Path) -> None:
    exports = Folder(f"memory://{tmp_path}")
    for name in ("checkpoints/attempt-1-step-2", "step-2-attempt-1"):
        exports.child("run_1").child(name).upload(model)
    await FsspecModelFolders(tmp_path / "runs", Places([str(tmp_path), "memory://"]), exports).tidy(RunId("run_1"))
    assert exports.child("run_1").names() == ["step-2-attempt-1"]


async def test_what_the_store_could_not_delete_is_found_again_and_counts_for_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exports = Folder(f"memory://{tmp_path}")
    folders = FsspecModelFolders(tmp_path / "runs", Places([str(tmp_path), "memory://"]), exports)
    copy = exports.child("run_1/checkpoints/attempt-1-step-2")
    copy.upload(model)
    copy.write(MARKER, b"{}")
    exports.child("run_2/step-2-attempt-1").upload(model)
    os.makedirs(tmp_path / "runs/run_1/checkpoints/attempt-1")
    delete = Folder.delete

    def torn(self: Folder) -> None:
        if self.uri.endswith("/checkpoints"):
            raise Unavailable("the store is away")
        delete(self)

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "delete", torn)
        with pytest.raises(Unavailable):
            await folders.tidy(RunId("run_1"))
    assert MARKER not in copy.names()
    shutil.rmtree(tmp_path / "runs")  # a lost disk
    assert await folders.with_leftovers() == ["run_1"]
    await folders.tidy(RunId("run_1"))
    assert await folders.with_leftovers() == []


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_what_lies_there_of_each_run(elsewhere: bool, model: Path, tmp_path: Path) -> None:
    exports = Folder(f"memory://{tmp_path}") if elsewhere else None
    runs = tmp_path / "runs"
    folders = FsspecModelFolders(runs, Places([str(tmp_path), "memory://"]), exports)
    assert await folders.stored() == []
    for name in ("run_1/checkpoints/attempt-1/global_step_4", "run_1/base", "run_1/logs", "run_2/exports/step-2"):
        (runs / name).mkdir(parents=True)
        (runs / name / "file").write_bytes(b"0" * 100)
    (runs / "run_1" / "checkpoints" / "link").symlink_to(model, target_is_directory=True)
    expected = [Stored(RunId("run_1"), 200), Stored(RunId("run_2"), 100, str(runs / "run_2/exports/step-2"))]
    if exports:
        for name in ("run_1/checkpoints/attempt-1-step-4", "run_3/step-2-attempt-1"):
            exports.child(name).upload(model)
        size = sum(Folder(str(model)).sizes().values())
        expected[0] = Stored(RunId("run_1"), 200 + size)
        expected.append(Stored(RunId("run_3"), size, exports.child("run_3/step-2-attempt-1").uri))
    assert await folders.stored() == expected


async def test_what_is_free_is_told_before_there_is_a_run(folders: FsspecModelFolders) -> None:
    assert await folders.free_bytes() > 0


async def test_a_runs_exports_are_removed_with_it(model: Path, tmp_path: Path) -> None:
    exports = Folder(f"memory://{tmp_path}")
    for run in ("run_1", "run_2"):
        exports.child(run).child("step-1").upload(model)
    await FsspecModelFolders(tmp_path / "runs", Places([str(tmp_path), "memory://"]), exports).remove(RunId("run_1"))
    assert {name.split("/")[0] for name in exports.sizes()} == {"run_2"}


async def test_only_a_runs_own_exports_are_removed(folders: FsspecModelFolders, model: Path, tmp_path: Path) -> None:
    id = RunId("run_1")
    own = tmp_path / "runs" / id / "exports" / "step-1"
    os.makedirs(own)
    os.makedirs(tmp_path / "runs" / id / "checkpoints")
    assert await folders.with_leftovers() == [id]
    for uri in (str(model), f"{own}/../../../../model", str(own)):
        await folders.remove_export(id, uri)
    assert len(os.listdir(model)) == 2
    assert os.listdir(own.parent) == []
    await folders.remove_export(id, str(own))
    await folders.tidy(id)
    assert await folders.with_leftovers() == []


@pytest.mark.parametrize(
    ("file", "text", "has"),
    [
        ("chat_template.jinja", "{{ messages }}", True),
        ("additional_chat_templates/tools.jinja", "{{ messages }}", False),  # it has none by default
        ("tokenizer_config.json", '{"chat_template": "{{ messages }}"}', True),
        ("tokenizer_config.json", '{"chat_template": [{"name": "default", "template": "{{ messages }}"}]}', True),
        ("tokenizer_config.json", '{"chat_template": null}', False),
        ("tokenizer_config.json", "no JSON", False),
        ("tokenizer.json", "{}", False),
    ],
)
async def test_a_chat_template_is_found_where_transformers_looks(
    folders: FsspecModelFolders, model: Path, file: str, text: str, has: bool
) -> None:
    (model / file).parent.mkdir(exist_ok=True)
    (model / file).write_text(text)
    assert (await folders.inspect(str(model))).has_chat_template == has


async def test_a_record_is_files_and_no_links(folders: FsspecModelFolders, tmp_path: Path) -> None:
    run = RunId("run_1")
    assert await folders.files(run) == []
    record = tmp_path / "runs/run_1/record"
    (record / "config").mkdir(parents=True)
    (record / "config/attempt-1.yaml").write_text("a: 1")
    (record / "config/attempt-2.yaml.part").write_text("a")
    (tmp_path / "secret").write_text("s")
    (record / "link").symlink_to(tmp_path / "secret")
    (record / "folder").symlink_to(tmp_path)
    assert await folders.files(run) == [RunFile("config/attempt-1.yaml", 4)]
    assert await folders.read(run, "config/attempt-1.yaml", 1, 2) == b": "
    with pytest.raises(NotFound):
        await folders.read(run, "gone", 0, 1)
