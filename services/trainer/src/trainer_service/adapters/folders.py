"""ModelFolders in local folders, and in object stores such as s3://bucket/prefix."""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ratchet_kit import model_config, storage
from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.names import Location
from ratchet_kit.places import Places
from ratchet_kit.storage import Folder
from trainer_service.domain.footprint import Shape
from trainer_service.domain.ports import FetchedModel, FoundModel, RunFile
from trainer_service.domain.run import RunId
from trainer_service.job.record import PART, RECORD

_BASE = "base"
_REWARD_MODEL = "reward-model"
_COPIES = (f"{_BASE}*", f"{_REWARD_MODEL}*")
"""What a run's folder holds of models that are not local, whole or in part."""
_MAX_CONFIG_BYTES = 16 << 20
_TEMPLATE = "chat_template.jinja"
_TOKENIZER = "tokenizer_config.json"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")


class FsspecModelFolders:
    """The folders of runs: below `runs_folder`, where a base is copied to that is not local, and below `exports`."""

    def __init__(self, runs_folder: Path, places: Places, exports: Folder | None = None) -> None:
        """`places`: where bases may lie. `exports`: None when exports are kept in the folders of the runs."""
        self._runs_folder = runs_folder
        self._places = places
        self._exports = exports

    async def inspect(self, uri: str) -> FoundModel:
        return await asyncio.to_thread(self._inspect, uri)

    async def fetch(self, model: FoundModel, id: RunId, name: str = _BASE) -> FetchedModel:
        return await asyncio.to_thread(self._fetch, model.uri, id, name)

    async def tidy(self, id: RunId) -> None:
        of_run = self._runs_folder / id
        copies = (folder for pattern in _COPIES for folder in of_run.glob(pattern))
        for folder in (of_run / "checkpoints", *copies):
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def with_leftovers(self) -> Sequence[RunId]:
        return await asyncio.to_thread(
            lambda: sorted(
                {
                    RunId(one.parent.name)
                    for kept in ("checkpoints", *_COPIES)
                    for one in self._runs_folder.glob(f"*/{kept}")
                }
            )
        )

    async def remove_export(self, id: RunId, uri: str) -> None:
        roots = [Folder(str(self._runs_folder / id / "exports"))]
        if self._exports is not None:
            roots.append(self._exports.child(id))
        if any(uri.startswith(f"{root.uri}/") and ".." not in uri for root in roots):
            await asyncio.to_thread(Folder(uri).delete)

    async def files(self, id: RunId) -> Sequence[RunFile]:
        return await asyncio.to_thread(lambda: [RunFile(name, size) for name, size in sorted(self._record(id))])

    async def read(self, id: RunId, name: str, offset: int, limit: int) -> bytes:
        def read() -> bytes:
            try:
                with (self._runs_folder / id / RECORD / name).open("rb") as file:
                    file.seek(offset)
                    return file.read(limit)
            except FileNotFoundError as error:
                raise NotFound(f"run {id} has no file {name!r} any more") from error

        return await asyncio.to_thread(read)

    def _record(self, id: RunId) -> Iterator[tuple[str, int]]:
        """Links are none of it: a job's code may have made them."""
        root = self._runs_folder / id / RECORD
        for folder, _, names in os.walk(root):
            for path in (Path(folder) / name for name in names if not name.endswith(PART)):
                with contextlib.suppress(FileNotFoundError):
                    found = path.lstat()
                    if stat.S_ISREG(found.st_mode):
                        yield path.relative_to(root).as_posix(), found.st_size

    async def free_bytes(self) -> int:
        return await asyncio.to_thread(storage.free_bytes, self._runs_folder)

    async def remove(self, id: RunId) -> None:
        await asyncio.to_thread(shutil.rmtree, self._runs_folder / id, ignore_errors=True)
        if self._exports is not None:
            await asyncio.to_thread(self._exports.child(id).delete)

    def _fetch(self, uri: str, id: RunId, name: str) -> FetchedModel:
        folder = self._places.open(self._inspect(uri).uri)
        target = folder.local or self._runs_folder / id / name
        with disk_errors(str(target)):
            if not target.is_dir():
                # Its own: a driver that lost the run to another may be copying still.
                partial = target.with_name(f"{name}-{socket.gethostname()}-{os.getpid()}")
                try:
                    folder.download(partial)
                    partial.rename(target)
                except BaseException:
                    shutil.rmtree(partial, ignore_errors=True)
                    raise
        return FetchedModel(folder.uri, target)

    def _inspect(self, uri: str) -> FoundModel:
        return _inspect(self._places, uri)


def _inspect(places: Places, uri: str) -> FoundModel:
    try:
        folder = places.open(uri)
        sizes = folder.sizes()
        if "config.json" not in sizes:
            raise NotFound(f"{uri} holds no model: config.json is missing")
        if sizes["config.json"] > _MAX_CONFIG_BYTES:
            raise NotFound(f"{uri} holds no model: config.json has more than {_MAX_CONFIG_BYTES >> 20} MiB")
        config = json.loads(folder.read("config.json"))
    except (InvalidArgument, FailedPrecondition) as error:
        raise NotFound(error.message) from error
    except (ValueError, RecursionError) as error:
        raise NotFound(f"{uri} holds no model: config.json is not JSON ({error})") from error
    if not isinstance(config, dict):
        raise NotFound(f"{uri} holds no model: config.json is no object")
    weights = [size for name, size in sizes.items() if name.endswith(".safetensors") and "/" not in name]
    if not weights:
        raise NotFound(f"{uri} holds no model: there is no *.safetensors file")
    of_text = config.get("text_config")
    decoder = of_text if isinstance(of_text, dict) and of_text else config
    room = config.get("max_position_embeddings") or decoder.get("max_position_embeddings")
    size = sum(weights)
    return FoundModel(
        Location(folder.uri),
        folder.uri,
        size_bytes=size,
        max_tokens=room if isinstance(room, int) and room > 0 else 0,
        shape=_shape(decoder, size),
        has_chat_template=_has_chat_template(folder, sizes),
        has_tokenizer=any(name in sizes for name in _TOKENIZERS),
        outputs=model_config.outputs(config),
    )


def _has_chat_template(folder: Folder, sizes: Mapping[str, int]) -> bool:
    """Where transformers looks for it: in a file of its own, or in the tokenizer's config."""
    if any(name == _TEMPLATE or name.startswith("additional_chat_templates/") for name in sizes):
        return True
    if not 0 < sizes.get(_TOKENIZER, 0) <= _MAX_CONFIG_BYTES:
        return False
    try:
        config = json.loads(folder.read(_TOKENIZER))
    except (ValueError, RecursionError):
        return False
    return isinstance(config, dict) and bool(config.get("chat_template"))


def _shape(config: Mapping[str, Any], size: int) -> Shape | None:
    """None for a config without the fields that decoders have."""
    each = 4 if "32" in str(config.get("dtype") or config.get("torch_dtype")) else 2
    try:
        return Shape(
            parameters=size // each,
            layers=int(config["num_hidden_layers"]),
            hidden=int(config["hidden_size"]),
            inner=int(config["intermediate_size"]),
            vocabulary=int(config["vocab_size"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
