"""A model's weights while they are received: each tensor goes to the disk as it comes, by a thread of its own.

A tensor is read, changed, hashed and written once, in blocks that stay in a processor's cache; what is on the disk is
not read again. So the id is that of what was written.
"""

import hashlib
import json
import math
import mmap
import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ratchet_kit import safetensors
from ratchet_kit.errors import DataLoss, FieldViolation, InvalidArgument
from ratchet_kit.policy_id import Buffer, Tensor, of_hashes
from ratchet_policies import tensor_changes
from rollout_service.adapters import changes
from rollout_service.domain.weights import Chunk, TensorHeader

SHARD_BYTES = 256 << 20
"""A file takes no more tensors once it has this size."""
_WAITING_BYTES = 256 << 20
"""Bytes that have come and are not written: memory holds at most these and one tensor."""
_HEADER_BYTES = 64 << 10
"""Room for the header of a file, before its tensors; the rest of it is spaces."""
_BLOCK = 1 << 18
"""Elements."""
_THREADS = min(8, len(os.sched_getaffinity(0)))


class Place(NamedTuple):
    file: FileIO
    start: int

    def write(self, data: Buffer, offset: int) -> None:
        view, at = memoryview(data), self.start + offset
        while view:
            written = os.pwrite(self.file.fileno(), view, at)
            view, at = view[written:], at + written


class Files:
    """Safetensors files whose tensors are written in any order, once each has its place
    (https://github.com/huggingface/safetensors#format)."""

    def __init__(self, folder: Path, shard_bytes: int) -> None:
        self._folder, self._shard_bytes = folder, shard_bytes
        self._open: list[tuple[FileIO, dict[str, object]]] = []
        self._size = self._header = 0

    def place(self, name: str, dtype: str, shape: Sequence[int], size: int) -> Place:
        """Raises InvalidArgument for a name that no header can have."""
        entry = {"dtype": dtype, "shape": list(shape), "data_offsets": [self._size, self._size + size]}
        if name == safetensors.METADATA:
            raise _unreadable(f"no tensor can have the name {name}")
        length = len(json.dumps({name: entry}))  # never fewer bytes than it takes among others
        if length > _HEADER_BYTES:
            raise _unreadable(f"a tensor's name of {len(name)} characters is too long")
        if not self._open or self._size >= self._shard_bytes or self._header + length > _HEADER_BYTES:
            self._begin()
        file, entries = self._open[-1]
        entries[name] = entry | {"data_offsets": [self._size, self._size + size]}
        place = Place(file, safetensors.PREFIX + _HEADER_BYTES + self._size)
        self._size, self._header = self._size + size, self._header + length
        return place

    def _begin(self) -> None:
        self._folder.mkdir(exist_ok=True)
        file = (self._folder / f"model-{len(self._open):05}.safetensors").open("wb", buffering=0)
        self._open.append((file, {}))
        self._size = self._header = 0

    def end(self) -> None:
        for file, entries in self._open:
            text = json.dumps(entries).encode().ljust(_HEADER_BYTES)
            Place(file, 0).write(_HEADER_BYTES.to_bytes(safetensors.PREFIX, "little") + text, 0)

    def close(self) -> None:
        for file, _ in self._open:
            file.close()


@dataclass(frozen=True, slots=True)
class Written:
    """A tensor with its hash, and what an engine needs to apply its changes in place."""

    name: str
    dtype: str
    shape: Sequence[int]
    sha256: str
    changes: Sequence[Tensor] = ()


class Sink:
    """Writes and hashes a tensor, block by block."""

    def __init__(self, place: Place) -> None:
        self._place, self._digest, self.size = place, hashlib.sha256(), 0

    def put(self, block: Buffer) -> None:
        self._digest.update(block)
        self._place.write(block, self.size)
        self.size += len(block)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


@dataclass(slots=True)
class Coming:
    """A tensor that is being received: mutable, as its chunks come. `before`: the bytes of the base's, where it has one
    of its shape."""

    header: TensorHeader
    before: Buffer | None
    chunks: list[bytes] = field(default_factory=list)
    came: int = 0

    @property
    def size(self) -> int:
        return safetensors.WIDTHS[self.header.dtype] * math.prod(self.header.shape)

    def add(self, data: bytes) -> None:
        self.came += len(data)
        if self.came > self.size:
            raise DataLoss(f"tensor {self.header.name} has more than its {self.size} bytes")
        self.chunks.append(data)

    def write(self, place: Place) -> Written:
        """Raises DataLoss where it is not what was announced."""
        header, sink = self.header, Sink(place)
        found = self._changed(sink) if header.changes else self._whole(sink)
        if sink.size != self.size:
            raise DataLoss(f"tensor {header.name} has {sink.size} of its {self.size} bytes")
        if sink.sha256 != header.sha256.lower():
            raise DataLoss(f"tensor {header.name} does not have the announced sha256")
        return Written(header.name, header.dtype, header.shape, sink.sha256, found)

    def _whole(self, sink: Sink) -> Sequence[Tensor]:
        for chunk in self.chunks:
            sink.put(chunk)
        if self.before is None:
            return ()
        return [Tensor(self.header.name, self.header.dtype, self.header.shape, b"".join(self.chunks))]

    def _changed(self, sink: Sink) -> Sequence[Tensor]:
        assert self.before is not None
        width = safetensors.WIDTHS[self.header.dtype]
        old = tensor_changes.elements(self.before, width)
        places, differences = tensor_changes.decode(b"".join(self.chunks), len(old), width)
        values, scratch = np.empty_like(differences), np.empty(min(_BLOCK, len(old)), old.dtype)
        for start in range(0, len(old), _BLOCK):
            block = scratch[: min(_BLOCK, len(old) - start)]
            np.copyto(block, old[start : start + len(block)])
            first, last = np.searchsorted(places, (start, start + len(block)))
            at = places[first:last] - start
            block[at] += differences[first:last]
            values[first:last] = block[at]
            sink.put(block.data.cast("B"))
        return changes.of_tensor(self.header.name, self.header.dtype, len(old), places, values)


def write_again(tensor: Tensor, place: Place) -> Written:
    """A tensor of the base that stays as it is."""
    sink = Sink(place)
    for start in range(0, len(tensor.data), _BLOCK):
        sink.put(tensor.data[start : start + _BLOCK])
    return Written(tensor.name, tensor.dtype, tensor.shape, sink.sha256)


class Receiver:
    """Takes the parts of a stream, and writes them to `folder`, until `close`: in whatever thread, one call at a time.

    `base`: the folder whose tensors stay as they are, unless they come.
    """

    def __init__(self, folder: Path, base: Path | None, shard_bytes: int = SHARD_BYTES) -> None:
        self._files = Files(folder, shard_bytes)
        self._changed = Files(folder / changes.FOLDER, shard_bytes)
        self._base = mapped(base) if base else {}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="weights")
        self._waiting: deque[tuple[int, Future[Written]]] = deque()
        self._names: set[str] = set()
        self._hashes: list[tuple[str, str, Sequence[int], str]] = []
        self._hashes_of_changes: list[tuple[str, str, Sequence[int], str]] = []
        self._fits = bool(base)
        """So far all that came is of the names and shapes of the base."""
        self._coming: Coming | None = None
        self._at_work = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Nothing works on the folder once this returns, nor later: whoever is cancelled leaves a thread in `take`."""
        with self._at_work:
            self._closed = True
            self._pool.shutdown(cancel_futures=True)
            self._files.close()
            self._changed.close()

    @property
    def policy_id(self) -> str:
        return of_hashes(self._hashes)

    @property
    def digest(self) -> str:
        """The hash of the changes; empty where what came makes other tensors than there were."""
        return of_hashes(self._hashes_of_changes) if self._fits else ""

    def take(self, parts: Sequence[TensorHeader | Chunk]) -> None:
        with self._at_work:
            if not self._closed:
                self._take(parts)

    def end(self) -> None:
        with self._at_work:
            if not self._closed:
                self._end()

    def _take(self, parts: Sequence[TensorHeader | Chunk]) -> None:
        for part in parts:
            match part:
                case TensorHeader():
                    self._start(part)
                case Chunk(data):
                    if self._coming is None:
                        raise _unreadable("a chunk comes before the first tensor")
                    self._coming.add(data)

    def _end(self) -> None:
        self._finish()
        for name, tensor in self._base.items():
            if name not in self._names:
                self._names.add(name)
                place = self._files.place(name, tensor.dtype, tensor.shape, len(tensor.data))
                self._waiting.append((0, self._pool.submit(write_again, tensor, place)))
        if not self._names:
            raise _unreadable("there is no tensor")
        self._settle(-1)
        self._files.end()
        self._changed.end()

    def _start(self, header: TensorHeader) -> None:
        self._finish()
        if header.name in self._names:
            raise _unreadable(f"tensor {header.name} comes twice")
        if header.dtype not in safetensors.WIDTHS:
            raise _unreadable(f"tensor {header.name} has the unknown dtype {header.dtype!r}")
        self._coming = Coming(header, self._before(header))

    def _before(self, header: TensorHeader) -> Buffer | None:
        before = self._base.get(header.name)
        if before is not None and (before.dtype, tuple(before.shape)) == (header.dtype, header.shape):
            return before.data
        if not header.changes:
            return None
        if before is None:
            raise _unreadable(f"there is no tensor {header.name} that could have changed")
        raise _unreadable(f"tensor {header.name} was {before.dtype} {list(before.shape)}: it must come whole")

    def _finish(self) -> None:
        if self._coming is not None:
            tensor, self._coming = self._coming, None
            self._fits &= tensor.before is not None
            header = tensor.header
            self._names.add(header.name)
            place = self._files.place(header.name, header.dtype, header.shape, tensor.size)
            self._waiting.append((tensor.came, self._pool.submit(tensor.write, place)))
            self._settle(_WAITING_BYTES)

    def _settle(self, most: int) -> None:
        """Waits until `most` bytes are to be written. Raises what writing them raises."""
        while self._waiting and (self._waiting[0][1].done() or sum(size for size, _ in self._waiting) > most):
            written = self._waiting.popleft()[1].result()
            self._hashes.append((written.name, written.dtype, written.shape, written.sha256))
            for one in written.changes:
                self._changed.place(one.name, one.dtype, one.shape, len(one.data)).write(one.data, 0)
                sha256 = hashlib.sha256(one.data).hexdigest()
                self._hashes_of_changes.append((one.name, one.dtype, one.shape, sha256))


def mapped(folder: Path) -> Mapping[str, Tensor]:
    """The tensors of a folder by name: their bytes are those of the files, read when they are needed."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        start = safetensors.PREFIX + safetensors.header_size(bytes(whole[: safetensors.PREFIX]), str(path))
        for one in safetensors.entries(bytes(whole[safetensors.PREFIX : start]), len(whole) - start, str(path)):
            data = whole[start + one.begin : start + one.end]
            found[one.name] = Tensor(one.name, one.dtype, one.shape, data)
    return found


def _unreadable(fault: str) -> InvalidArgument:
    return InvalidArgument(f"the weights cannot be read: {fault}", [FieldViolation("message", fault)])
