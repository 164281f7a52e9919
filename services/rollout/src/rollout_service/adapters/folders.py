"""Model folders on this machine's disk: fetched from a URL, or received tensor by tensor."""

import asyncio
import hashlib
import json
import math
import os
import shutil
import struct
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from ratchet_kit import policy_id, storage
from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.errors import DataLoss, FieldViolation, InvalidArgument, NotFound
from ratchet_kit.places import Places
from ratchet_kit.storage import Folder
from rollout_service.domain.policy import PolicyId
from rollout_service.domain.ports import ModelFolder
from rollout_service.domain.weights import Chunk, TensorHeader, WeightStream

SHARD_BYTES = 256 << 20
"""A received shard is written once it has this size. Memory holds at most this and one tensor."""

_DTYPE_BYTES: Mapping[str, int] = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
}


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
            return await asyncio.to_thread(_described, source, folder.local)
        target = self._new_folder("fetched-")
        try:
            await asyncio.to_thread(folder.download, target)
            return await asyncio.to_thread(_described, source, target)
        except (NotFound, InvalidArgument) as error:
            shutil.rmtree(target, ignore_errors=True)
            raise _bad_source(source, error.message) from error
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise

    async def receive(self, base: ModelFolder, weights: WeightStream) -> ModelFolder:
        await asyncio.to_thread(storage.require_space, self._root, base.size_bytes)
        folder = self._new_folder("received-")
        try:
            with disk_errors(str(self._root)):
                await self._write(folder, weights)
                await asyncio.to_thread(_copy_config, base.path, folder)
                # Hashed again from the disk, since the engine loads these files.
                return await asyncio.to_thread(_described, str(base.path), folder)
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

    async def _write(self, folder: Path, weights: WeightStream) -> None:
        shard: list[_Tensor] = []
        shards = 0
        names: set[str] = set()
        async for part in weights:
            match part:
                case TensorHeader():
                    if shard:
                        shard[-1].finish()
                    if part.name in names:
                        raise _out_of_order(f"tensor {part.name} comes twice")
                    names.add(part.name)
                    if sum(len(tensor.data) for tensor in shard) >= self._shard_bytes:
                        await asyncio.to_thread(_write_shard, folder, shards, shard)
                        shards, shard = shards + 1, []
                    shard.append(_Tensor(part))
                case Chunk(data):
                    if not shard:
                        raise _out_of_order("a chunk comes before the first tensor")
                    await asyncio.to_thread(shard[-1].add, data)  # hashing holds up no other call there
        if not shard:
            raise _out_of_order("there is no tensor")
        shard[-1].finish()
        await asyncio.to_thread(_write_shard, folder, shards, shard)


class _Tensor:
    """A tensor that is being received."""

    def __init__(self, header: TensorHeader) -> None:
        size = _DTYPE_BYTES.get(header.dtype)
        if size is None:
            raise _out_of_order(f"tensor {header.name} has the unknown dtype {header.dtype!r}")
        self.header = header
        self.data = bytearray()
        self._size = size * math.prod(header.shape)
        self._hash = hashlib.sha256()

    def add(self, data: bytes) -> None:
        if len(self.data) + len(data) > self._size:
            raise DataLoss(f"tensor {self.header.name} has more than its {self._size} bytes")
        self.data += data
        self._hash.update(data)

    def finish(self) -> None:
        if len(self.data) != self._size:
            raise DataLoss(f"tensor {self.header.name} has {len(self.data)} of its {self._size} bytes")
        if self._hash.hexdigest() != self.header.sha256.lower():
            raise DataLoss(f"tensor {self.header.name} does not have the announced sha256")


def _delete(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)  # one that stays costs its space, and keeps no service from starting


def _write_shard(folder: Path, index: int, tensors: list[_Tensor]) -> None:
    """A file in the format of https://github.com/huggingface/safetensors#format."""
    header, offset = dict[str, object](), 0
    for tensor in tensors:
        end = offset + len(tensor.data)
        header[tensor.header.name] = {
            "dtype": tensor.header.dtype,
            "shape": list(tensor.header.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / f"model-{index:05}.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors:
            file.write(tensor.data)


def _copy_config(base: Path, folder: Path) -> None:
    """Copies all of a model except its weights: config, tokenizer, chat template."""
    for file in base.iterdir():
        if file.is_file() and not file.name.endswith((".safetensors", ".safetensors.index.json", ".bin", ".gguf")):
            shutil.copyfile(file, folder / file.name)


def _described(source: str, folder: Path) -> ModelFolder:
    if (fault := _fault(folder)) is not None:
        raise _bad_source(source, fault)
    size = sum(os.path.getsize(file) for file in folder.glob("*.safetensors"))
    return ModelFolder(folder, PolicyId(policy_id.of_folder(folder)), size, policy_id.settings_of_folder(folder))


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
    return None


def _bad_source(source: str, fault: str) -> InvalidArgument:
    return InvalidArgument(f"{source} holds no model: {fault}", [FieldViolation("source_uri", fault)])


def _out_of_order(fault: str) -> InvalidArgument:
    return InvalidArgument(f"the weights cannot be read: {fault}", [FieldViolation("message", fault)])
