"""Model folders on this machine's disk: fetched from a URL, or received tensor by tensor."""

import asyncio
import hashlib
import json
import math
import os
import shutil
import struct
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ratchet_kit import model_config, policy_id, safetensors, storage
from ratchet_kit.allowed_sources import Places
from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.errors import DataLoss, FieldViolation, InvalidArgument, NotFound
from ratchet_kit.storage import Folder
from ratchet_policies import tensor_changes
from rollout_service.adapters import changes
from rollout_service.domain.policy import PolicyId
from rollout_service.domain.ports import Changes, ModelFolder
from rollout_service.domain.weights import Chunk, TensorHeader, WeightStream

SHARD_BYTES = 256 << 20
"""A received shard is written once it has this size. Memory holds at most this and one tensor."""
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
                digest = await self._write(folder, weights, base.path if changes else None)
                await asyncio.to_thread(_copy_config, base.path, folder)
                # Hashed again from the disk, since the engine loads these files.
                received = await asyncio.to_thread(_described, str(base.path), folder)
                return replace(received, changes=Changes(base.policy_id, digest)) if digest else received
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

    async def _write(self, folder: Path, weights: WeightStream, base: Path | None) -> str:
        """`base`: the folder that these are changes of. Returns the digest of the changes, where there are any."""
        writer = _Writer(folder, self._shard_bytes, _places(base) if base else {})
        some, size = list[TensorHeader | Chunk](), 0
        async for part in weights:
            some.append(part)
            size += len(part.data) if isinstance(part, Chunk) else 0
            if size >= _AT_ONCE_BYTES or len(some) >= _AT_ONCE:
                # Hashing, reading and writing hold up no other call in a thread.
                await asyncio.to_thread(writer.take, some)
                some, size = [], 0
        await asyncio.to_thread(writer.take, some)
        await asyncio.to_thread(writer.end)
        return writer.digest


class _Writer:
    """A model's weights while they are received, tensor by tensor."""

    def __init__(self, folder: Path, shard_bytes: int, base: Mapping[str, Path]) -> None:
        """`base`: the file of each tensor that stays as it is, unless it comes."""
        self._folder, self._shard_bytes, self._base = folder, shard_bytes, base
        self._names: set[str] = set()
        self._shard: list[policy_id.Tensor] = []
        self._changes: list[policy_id.Tensor] = []
        self._hashes: list[tuple[str, str, Sequence[int], str]] = []
        self._fits = bool(base)
        """So far all that came is of the names and shapes of the base."""
        self._shards = 0
        self._coming: _Tensor | None = None

    def take(self, parts: Sequence[TensorHeader | Chunk]) -> None:
        for part in parts:
            match part:
                case TensorHeader():
                    self._start(part)
                case Chunk(data):
                    self._add(data)

    def _start(self, header: TensorHeader) -> None:
        self._finish()
        if header.name in self._names:
            raise _out_of_order(f"tensor {header.name} comes twice")
        self._coming = _Tensor(header, self._before(header))

    def _add(self, data: bytes) -> None:
        if self._coming is None:
            raise _out_of_order("a chunk comes before the first tensor")
        self._coming.add(data)

    @property
    def digest(self) -> str:
        """Of the changes; empty where what came makes other tensors than there were."""
        return policy_id.of_hashes(self._hashes) if self._fits else ""

    def end(self) -> None:
        self._finish()
        for name, file in self._base.items():
            if name not in self._names:
                self._take(_read(file, name))
        if not self._names:
            raise _out_of_order("there is no tensor")
        self._flush()

    def _finish(self) -> None:
        if self._coming is not None:
            tensor, before = self._coming.whole(), self._coming.before
            self._fits &= before is not None
            self._take(tensor, changes.of_tensor(before, tensor) if before is not None else [])
            self._coming = None

    def _take(self, tensor: policy_id.Tensor, changed: Sequence[policy_id.Tensor] = ()) -> None:
        if sum(len(held.data) for held in (*self._shard, *self._changes)) >= self._shard_bytes:
            self._flush()
        self._names.add(tensor.name)
        self._shard.append(tensor)
        self._changes += changed
        self._hashes += [(one.name, one.dtype, one.shape, hashlib.sha256(one.data).hexdigest()) for one in changed]

    def _flush(self) -> None:
        _write_shard(self._folder, self._shards, self._shard)
        if self._changes:
            (self._folder / changes.FOLDER).mkdir(exist_ok=True)
            _write_shard(self._folder / changes.FOLDER, self._shards, self._changes)
        self._shards, self._shard, self._changes = self._shards + 1, [], []

    def _before(self, header: TensorHeader) -> bytes | None:
        """The bytes of the base's tensor of this name and shape; None where there is none and it comes whole."""
        file = self._base.get(header.name)
        before = None if file is None else _read(file, header.name)
        if before is not None and (before.dtype, tuple(before.shape)) == (header.dtype, header.shape):
            return bytes(before.data)
        if not header.changes:
            return None
        if before is None:
            raise _out_of_order(f"there is no tensor {header.name} that could have changed")
        raise _out_of_order(f"tensor {header.name} was {before.dtype} {list(before.shape)}: it must come whole")


class _Tensor:
    """A tensor that is being received: its bytes, or what changed of those that it had `before`, where it had some."""

    def __init__(self, header: TensorHeader, before: bytes | None) -> None:
        width = safetensors.WIDTHS.get(header.dtype)
        if width is None:
            raise _out_of_order(f"tensor {header.name} has the unknown dtype {header.dtype!r}")
        self._header, self.before, self._width = header, before, width
        self._size = width * math.prod(header.shape)
        self._came = bytearray()

    def add(self, data: bytes) -> None:
        if len(self._came) + len(data) > self._size:
            raise DataLoss(f"tensor {self._header.name} has more than its {self._size} bytes")
        self._came += data

    def whole(self) -> policy_id.Tensor:
        header, data = self._header, bytes(self._came)
        if header.changes:
            assert self.before is not None
            data = tensor_changes.decode(self.before, data, self._width)
        if len(data) != self._size:
            raise DataLoss(f"tensor {header.name} has {len(data)} of its {self._size} bytes")
        if hashlib.sha256(data).hexdigest() != header.sha256.lower():
            raise DataLoss(f"tensor {header.name} does not have the announced sha256")
        return policy_id.Tensor(header.name, header.dtype, header.shape, data)


def _places(folder: Path) -> dict[str, Path]:
    """The file of each tensor."""
    return {
        tensor.name: file
        for file in sorted(folder.glob("*.safetensors"))
        for tensor in policy_id.read_safetensors(file)
    }


def _read(file: Path, name: str) -> policy_id.Tensor:
    for tensor in policy_id.read_safetensors(file, only=name):
        return tensor._replace(data=bytes(tensor.data))
    raise DataLoss(f"{file} has lost the tensor {name}")


def _delete(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)  # one that stays costs its space, and keeps no service from starting


def _write_shard(folder: Path, index: int, tensors: list[policy_id.Tensor]) -> None:
    """A file in the format of https://github.com/huggingface/safetensors#format."""
    header, offset = dict[str, object](), 0
    for tensor in tensors:
        end = offset + len(tensor.data)
        header[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
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


def _sound(source: str, folder: Path) -> ModelFolder:
    """Raises InvalidArgument, and DataLoss for weights that are not whole, or no numbers."""
    described = _described(source, folder)
    policy_id.check_finite(folder)
    return described


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
    if model_config.outputs(model_config.read((folder / "config.json").read_bytes())):
        return "it is a reward model, or another classifier, which scores texts and writes none: it cannot be served"
    return None


def _bad_source(source: str, fault: str) -> InvalidArgument:
    return InvalidArgument(f"{source} holds no policy: {fault}", [FieldViolation("source_uri", fault)])


def _out_of_order(fault: str) -> InvalidArgument:
    return InvalidArgument(f"the weights cannot be read: {fault}", [FieldViolation("message", fault)])
