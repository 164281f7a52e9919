"""ModelFolders on fsspec: local folders, and object stores such as s3://bucket/prefix."""

import asyncio
import json
import os
import shutil
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ratchet_kit.errors import NotFound, Unavailable
from ratchet_kit.names import Location
from trainer_service.domain.ports import FoundModel
from trainer_service.domain.run import RunId


class FsspecModelFolders:
    """`runs_folder`: where each run has a folder of its own; a base that is not local is copied there."""

    def __init__(self, runs_folder: Path) -> None:
        self._runs_folder = runs_folder

    async def inspect(self, uri: str) -> FoundModel:
        return await asyncio.to_thread(_inspect, uri)

    async def fetch(self, base: FoundModel, id: RunId) -> str:
        return await asyncio.to_thread(self._fetch, base.uri, id)

    async def remove(self, id: RunId) -> None:
        await asyncio.to_thread(shutil.rmtree, self._runs_folder / id, ignore_errors=True)

    def _fetch(self, uri: str, id: RunId) -> str:
        found = _inspect(uri)
        fs, path = _open(found.uri)
        if isinstance(fs, LocalFileSystem):
            return path
        target = self._runs_folder / id / "base"
        if target.is_dir():
            return str(target)
        partial = target.with_name("base.partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            fs.get(path.rstrip("/") + "/", f"{partial}{os.sep}", recursive=True)
        except OSError as error:
            raise Unavailable(f"{uri} cannot be copied: {error}") from error
        partial.rename(target)
        return str(target)


def _inspect(uri: str) -> FoundModel:
    fs, path = _open(uri)
    try:
        if not fs.isdir(path):
            raise NotFound(f"there is no folder {uri}")
        sizes = {file["name"].rpartition("/")[2]: file["size"] for file in fs.ls(path, detail=True)}
        if "config.json" not in sizes:
            raise NotFound(f"{uri} holds no model: config.json is missing")
        config = json.loads(fs.cat_file(f"{path}/config.json"))
    except OSError as error:
        raise Unavailable(f"{uri} cannot be read: {error}") from error
    except ValueError as error:
        raise NotFound(f"{uri} holds no model: config.json is not JSON ({error})") from error
    weights = [size for name, size in sizes.items() if name.endswith(".safetensors")]
    if not weights:
        raise NotFound(f"{uri} holds no model: there is no *.safetensors file")
    everywhere = path if isinstance(fs, LocalFileSystem) else fs.unstrip_protocol(path)
    room = config.get("max_position_embeddings") or config.get("text_config", {}).get("max_position_embeddings") or 0
    return FoundModel(Location(everywhere), everywhere, size_bytes=sum(weights), max_tokens=room)


def _open(uri: str) -> tuple[fsspec.AbstractFileSystem, str]:
    try:
        fs, path = fsspec.url_to_fs(os.path.expanduser(uri))
    except (ImportError, ValueError) as error:
        raise NotFound(f"{uri} cannot be read: {error}") from error
    return fs, path
