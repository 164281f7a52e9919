"""MinHash sketches (Broder, On the resemblance and containment of documents, 1997) of problems: numbers that say how
alike two problems are, without either of them."""

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import islice
from typing import IO, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ratchet_kit.errors import DataLoss
from ratchet_problems.near.features import VIEWS, Features, features, structure
from ratchet_problems.problem import Problem

T = TypeVar("T")
HASHES = 128
"""Hash functions of a view: the standard error of a similarity of a half is 0.04."""
_AT_ONCE = 250
_IN_FLIGHT = 2
"""Batches that the other process has to do: one, and the next."""
_MOST_BEGUN = 32
"""Batches in memory."""
_random = np.random.default_rng(31)  # the same in every process: sketches of two services are compared
_FACTORS = _random.integers(1, 1 << 63, size=HASHES, dtype=np.uint64) | np.uint64(1)
_ADDENDS = _random.integers(0, 1 << 63, size=HASHES, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class Sketches:
    """Sketches of problems, in order."""

    ids: Sequence[str]
    signatures: NDArray[np.uint16]
    """(problems, views, HASHES): of each hash function the least value, and of that 16 bits (Li and Koenig, b-bit
    minwise hashing, 2010)."""
    sizes: NDArray[np.uint8]
    """(problems, views): features, 255 at most."""
    structures: NDArray[np.uint32]
    """Hash of the structure; 0: the problem has none."""

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, end: int) -> "Sketches":
        """A view of the problems from `start` to before `end`."""
        return Sketches(
            self.ids[start:end], self.signatures[start:end], self.sizes[start:end], self.structures[start:end]
        )

    def write(self, file: IO[bytes]) -> None:
        ids = np.frombuffer("\0".join(self.ids).encode(), dtype=np.uint8)
        np.savez_compressed(file, ids=ids, signatures=self.signatures, sizes=self.sizes, structures=self.structures)

    @classmethod
    def read(cls, file: IO[bytes]) -> "Sketches":
        """Raises DataLoss for a file that `write` did not write."""
        try:
            found = np.load(file, allow_pickle=False)
            ids = found["ids"].tobytes().decode()
            return cls(ids.split("\0") if ids else (), found["signatures"], found["sizes"], found["structures"])
        except (ValueError, KeyError, OSError, EOFError, BadZipFile, zlib.error) as error:
            raise DataLoss(f"the sketches cannot be read: {error}") from error


class Sketcher:
    """Gathers the sketches of problems that go by: 800 bytes of each are kept."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._signatures, self._sizes, self._structures = bytearray(), bytearray(), bytearray()

    def add(self, problems: Sequence[Problem], drawn: "Drawn") -> None:
        """`drawn`: of these problems."""
        self._ids += [problem.id for problem in problems]
        self._signatures += drawn.signatures
        self._sizes += drawn.sizes
        self._structures += drawn.structures

    def sketches(self) -> Sketches:
        views = len(VIEWS)
        return Sketches(
            self._ids,
            np.frombuffer(self._signatures, dtype=np.uint16).reshape(-1, views, HASHES),
            np.frombuffer(self._sizes, dtype=np.uint8).reshape(-1, views),
            np.frombuffer(self._structures, dtype=np.uint32),
        )


def sketch(problems: Iterable[Problem], helper: Executor | None = None) -> Sketches:
    """`helper`: as of `shared_out`."""
    sketcher = Sketcher()
    for batch, drawn in shared_out(draw, problems, helper):
        sketcher.add(batch, drawn)
    return sketcher.sketches()


def shared_out(
    work: Callable[[Sequence[Problem]], T], problems: Iterable[Problem], helper: Executor | None
) -> Iterator[tuple[Sequence[Problem], T]]:
    """The problems in order, some at once, with what `work` makes of them. `helper`: another process, which does it,
    too; this one does as much as the other leaves, so that neither waits. `work` goes by its name to the other."""
    left = iter(problems)
    begun: deque[tuple[Sequence[Problem], Future[T] | T]] = deque()

    def ended() -> bool:
        return bool(begun) and not (isinstance(begun[0][1], Future) and not begun[0][1].done())

    while batch := list(islice(left, _AT_ONCE)):
        is_busy = sum(isinstance(made, Future) and not made.done() for _, made in begun) >= _IN_FLIGHT
        begun.append((batch, work(batch) if helper is None or is_busy else helper.submit(work, batch)))
        while ended() or len(begun) > _MOST_BEGUN:
            some, made = begun.popleft()
            yield some, made.result() if isinstance(made, Future) else made
    for some, made in begun:
        yield some, made.result() if isinstance(made, Future) else made


@dataclass(frozen=True, slots=True)
class Drawn:
    """The sketches of some problems, as bytes of the arrays of Sketches."""

    signatures: bytes
    sizes: bytes
    structures: bytes


def draw(problems: Sequence[Problem]) -> Drawn:
    found = [features(problem) for problem in problems]
    sizes = np.array([[min(len(view), 255) for view in one] for one in found], dtype=np.uint8)
    structures = np.array([_hash(structure(problem)) for problem in problems], dtype=np.uint32)
    return Drawn(_signatures(found).tobytes(), sizes.tobytes(), structures.tobytes())


def _signatures(found: Sequence[Features]) -> NDArray[np.uint16]:
    """One pass over the features of all: a view without features has a hash of 0, and its size says so."""
    lists = [list(view) or [0] for one in found for view in one]
    starts = np.cumsum([0, *map(len, lists)])[:-1]
    values = np.array([value for view in lists for value in view], dtype=np.uint64)
    signatures = np.empty((len(lists), HASHES), dtype=np.uint16)
    for place in range(HASHES):  # multiply-shift hashing (Dietzfelbinger et al., 1997), 32 bits of 64
        hashed = (values * _FACTORS[place] + _ADDENDS[place]) >> np.uint64(32)
        signatures[:, place] = np.minimum.reduceat(hashed, starts) & np.uint64(0xFFFF)
    return signatures.reshape(len(found), -1, HASHES)


def _hash(text: str) -> int:
    return zlib.crc32(text.encode()) or 1 if text else 0
