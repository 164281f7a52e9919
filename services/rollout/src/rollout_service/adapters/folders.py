"""Model folders on this machine's disk: fetched from a URL, or received tensor by tensor."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from ratchet_kit import model_config, policy_id, storage
from ratchet_kit.allowed_sources import Places
from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.errors import FieldViolation, InvalidArgument, NotFound
from ratchet_kit.storage import Folder
from rollout_service.adapters.receiving import SHARD_BYTES, Receiver
from rollout_service.domain.policy import PolicyId
from rollout_service.domain.ports import Changes, ModelFolder
from rollout_service.domain.weights import Chunk, TensorHeader, WeightStream

_AT_ONCE, _AT_ONCE_BYTES = 64, 4 << 20
"""Parts of a stream that a thread takes together: to go there takes as long as to hash half a MB."""


class DiskModelFolders:
    """See `ModelFolders`. `root` holds the folders that it makes, and nothing else."""

    def __init__(self, root: Path, places: Places, shard_bytes: int = SHARD_BYTES) -> None:
        """`places`: where sources may lie."""
        self._root = root
        self._places = places
        self._shard_bytes = shard_bytes

    async def check(self, source: str) -> None:
        folder = self._folder(source)
        if folder.local is not None:
            await asyncio.to_thread(_look, source, folder)

    async def fetch(self, source: str) -> ModelFolder:
        folder = self._folder(source)
        if folder.local is not None:
            await asyncio.to_thread(_look, source, folder)
            return await asyncio.to_thread(_sound, source, folder.local)
        target = self._new_folder("fetched-")
        try:
            await asyncio.to_thread(folder.download, target)
            return await asyncio.to_thread(_sound, source, target)
        except (NotFound, InvalidArgument) as error:
            shutil.rmtree(target, ignore_errors=True)
            raise _bad_source(source, error.message) from error
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise

    async def receive(self, base: ModelFolder, weights: WeightStream, *, changes: bool = False) -> ModelFolder:
        await asyncio.to_thread(storage.require_space, self._root, base.size_bytes)
        folder = self._new_folder("received-")
        try:
            with disk_errors(str(self._root)):
                return await self._receive(folder, weights, base, changes)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    async def release(self, folder: ModelFolder) -> None:
        if folder.path.parent == self._root:
            await asyncio.to_thread(shutil.rmtree, folder.path, ignore_errors=True)

    async def retain(self, folders: Collection[str]) -> None:
        kept = {Path(folder) for folder in folders}
        await asyncio.to_thread(_delete, [path for path in self._made() if path not in kept])

    def _folder(self, source: str) -> Folder:
        if Path(source).parent == self._root:  # the weights that a policy had when the service was killed
            return Folder(source)
        try:
            return self._places.open(source)
        except InvalidArgument as error:
            raise _bad_source(source, error.message) from error

    def _made(self) -> list[Path]:
        return list(self._root.iterdir()) if self._root.exists() else []

    def _new_folder(self, prefix: str) -> Path:
        with disk_errors(str(self._root)):
            self._root.mkdir(parents=True, exist_ok=True)
            return Path(tempfile.mkdtemp(prefix=prefix, dir=self._root))

    async def _receive(self, folder: Path, weights: WeightStream, base: ModelFolder, changed: bool) -> ModelFolder:
        # First of all: others may take the place of the base while these come, and its folder is deleted then.
        await asyncio.to_thread(_copy_config, base.path, folder)
        made = await asyncio.to_thread(Receiver, folder, base.path if changed else None, self._shard_bytes)
        try:
            some, size = list[TensorHeader | Chunk](), 0
            async for part in weights:
                some.append(part)
                size += len(part.data) if isinstance(part, Chunk) else 0
                if size >= _AT_ONCE_BYTES or len(some) >= _AT_ONCE:
                    # What waits for the disk holds up no other call in a thread.
                    await asyncio.to_thread(made.take, some)
                    some, size = [], 0
            await asyncio.to_thread(made.take, some)
            await asyncio.to_thread(made.end)
        finally:
            await asyncio.to_thread(made.close)
        known = Changes(base.policy_id, made.digest) if made.digest else None
        settings_id = base.settings_id or policy_id.settings_of_folder(folder)
        return ModelFolder(folder, PolicyId(made.policy_id), _size(folder), settings_id, known)


def _delete(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)  # one that stays costs its space, and keeps no service from starting


def _copy_config(base: Path, folder: Path) -> None:
    """Copies all of a model except its weights: config, tokenizer, chat template."""
    for file in base.iterdir():
        if file.is_file() and not file.name.endswith((".safetensors", ".safetensors.index.json", ".bin", ".gguf")):
            shutil.copyfile(file, folder / file.name)


def _sound(source: str, folder: Path) -> ModelFolder:
    """Raises InvalidArgument, and DataLoss for weights that are not whole, or no numbers."""
    described = _described(source, folder)
    policy_id.check_finite(folder)
    return described


def _described(source: str, folder: Path) -> ModelFolder:
    if (fault := _fault(folder)) is not None:
        raise _bad_source(source, fault)
    return ModelFolder(
        folder, PolicyId(policy_id.of_folder(folder)), _size(folder), policy_id.settings_of_folder(folder)
    )


def _size(folder: Path) -> int:
    return sum(os.path.getsize(file) for file in folder.glob("*.safetensors"))


def _look(source: str, folder: Folder) -> None:
    """Raises InvalidArgument where a local folder holds no model, or leads out of the places of models."""
    assert folder.local is not None
    if (fault := _fault(folder.local)) is not None:
        raise _bad_source(source, fault)
    try:
        folder.sizes()
    except InvalidArgument as error:
        raise _bad_source(source, error.message) from error


def _fault(folder: Path) -> str | None:
    if not folder.is_dir():
        return "there is no such folder on the rollout service's machine"
    if not (folder / "config.json").is_file():
        return "there is no config.json in it"
    if not any(folder.glob("*.safetensors")):
        return "there is no .safetensors file in it"
    if model_config.outputs(model_config.read((folder / "config.json").read_bytes())):
        return "it is a reward model, or another classifier, which scores texts and writes none: it cannot be served"
    return None


def _bad_source(source: str, fault: str) -> InvalidArgument:
    return InvalidArgument(f"{source} holds no policy: {fault}", [FieldViolation("source_uri", fault)])
