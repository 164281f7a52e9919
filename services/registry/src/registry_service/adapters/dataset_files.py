"""DatasetFiles in a folder, or in an object store such as s3://bucket/prefix.

uploads/<data set>/<split>/<offset>   the parts of an upload
contents/<sha256>                     what is kept
"""

import asyncio
import hashlib
import json
import multiprocessing
import re
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

from ratchet_kit import json_text, storage
from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.errors import DataLoss, InvalidArgument, Unavailable
from ratchet_kit.names import DatasetRef
from ratchet_kit.redaction import emails, secrets
from ratchet_problems import InvalidProblem, Problem, examine, tables
from ratchet_problems.jsonl import numbered_lines
from ratchet_problems.near.sketches import Sketcher
from ratchet_problems.tables import MOST_FAULTS
from registry_service.adapters.alike import FsspecSketchStore
from registry_service.domain.dataset import Content, Upload

UPLOADS, CONTENTS = "uploads", "contents"
_LARGE = 32 << 20
"""Bytes of a file that a second process helps with."""
_MOST_SHOWN = 5
_LONG = re.compile(r"[\w+/=.:-]{16,}")
"""No key and no token is shorter."""


class FsspecDatasetFiles:
    """Keeps data sets under `root`. A content is made in a file of this machine first, and is never changed."""

    def __init__(self, root: str, sketches: FsspecSketchStore) -> None:
        """`sketches`: where those of each content are put. Raises InvalidArgument for a URL that cannot be used."""
        self._root = storage.Folder(root)
        self._sketches = sketches

    async def write_chunk(self, dataset: str, split: str, offset: int, data: bytes) -> None:
        part = f"{UPLOADS}/{dataset}/{split}/{offset:015d}"
        await asyncio.to_thread(self._root.write, part, data)

    async def examine(self, dataset: str, split: str, upload: Upload, *, as_rows: bool) -> Content:
        return await asyncio.to_thread(self._examine, dataset, split, upload, as_rows)

    async def read(self, sha256: str, start: int, end: int) -> bytes:
        return await asyncio.to_thread(self._root.read, f"{CONTENTS}/{sha256}", start, end)

    async def uploads(self) -> Sequence[str]:
        return await asyncio.to_thread(self._root.child(UPLOADS).names)

    async def discard(self, dataset: str) -> None:
        await asyncio.to_thread(self._root.child(f"{UPLOADS}/{dataset}").delete)

    async def delete(self, sha256: str) -> None:
        await asyncio.to_thread(self._root.child(f"{CONTENTS}/{sha256}").delete)

    def _examine(self, dataset: str, split: str, upload: Upload, as_rows: bool) -> Content:
        parts = self._root.child(f"{UPLOADS}/{dataset}/{split}")
        with disk_errors(tempfile.gettempdir()), tempfile.TemporaryDirectory(prefix="ratchet-dataset-") as folder:
            whole, kept = Path(folder, "upload"), Path(folder, "content")
            storage.require_space(whole.parent, 2 * upload.size_bytes)
            put_together(parts, split, upload, whole)
            tally = _Tally()
            if as_rows:
                rows, digest, kept = _count_rows(whole, split), "", whole
                self._sketches.keep_benchmark(DatasetRef.parse(dataset).name, upload.sha256, whole.read_bytes())
            else:
                with _helper(upload.size_bytes) as helper:
                    sketcher = Sketcher(helper)
                    table = tables.write(sketcher.of(tally.of(tables.checked(whole, split))), kept)
                    self._sketches.keep(table.digest, sketcher.sketches())
                rows, digest = table.rows, table.digest
            content = Content(kept.stat().st_size, sha256_of(kept), rows, digest, tally.notices)
            self._root.put(f"{CONTENTS}/{content.sha256}", kept)
        return content


def put_together(parts: storage.Folder, split: str, upload: Upload, whole: Path) -> None:
    """Writes the file of which the folder has the parts. Raises DataLoss, Unavailable."""
    with whole.open("wb") as file:
        for name in sorted(filter(str.isdigit, parts.sizes())):  # no part that was left half written
            file.write(parts.read(name))
    if sha256_of(whole) != upload.sha256:
        raise DataLoss(f"the bytes of {split} are not those that were announced: upload it again")


@contextmanager
def _helper(size_bytes: int) -> Iterator[Executor | None]:
    """Another process that sketches, for a file that takes a while."""
    if size_bytes < _LARGE:
        yield None
        return
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as helper:
        try:
            yield helper
        except BrokenProcessPool as error:
            raise Unavailable("the process that sketches problems was killed") from error


class _Tally:
    """Counts of the problems that go by."""

    def __init__(self) -> None:
        self._counts = {"without a reference": 0, "without tests: for SFT alone": 0, "with tests that can be forged": 0}
        self._found: dict[str, list[str]] = {
            "with what looks like a key or a token": [],
            "with an e-mail address": [],
        }

    def of(self, problems: Iterator[Problem]) -> Iterator[Problem]:
        """The same problems. Raises InvalidArgument with the faults of their code."""
        faults: list[InvalidProblem] = []
        for problem in problems:
            if problem.tests and (fault := examine(problem)):
                path, _, reason = fault.partition(": ")
                faults.append(InvalidProblem(problem.id, path, reason))
                if len(faults) == MOST_FAULTS:
                    break
            found = (not problem.references, not problem.tests, problem.forgeable)
            for name, is_one in zip(self._counts, found, strict=True):
                self._counts[name] += is_one
            text = _text(problem)
            for ids, is_private in zip(self._found.values(), (has_secret(text), emails(text) != text), strict=True):
                ids += [problem.id] if is_private else []
            yield problem
        if faults:
            raise tables.at_fault(faults)

    @property
    def notices(self) -> tuple[str, ...]:
        counted = [f"{_problems(number)} {name}" for name, number in self._counts.items() if number]
        found = [f"{_problems(len(ids))} {name}: {_shown(ids)}" for name, ids in self._found.items() if ids]
        return (*counted, *found)


def _problems(number: int) -> str:
    return f"{number:,} problem{'s' * (number != 1)}"


def _shown(ids: Sequence[str]) -> str:
    return ", ".join(ids[:_MOST_SHOWN]) + " ..." * (len(ids) > _MOST_SHOWN)


def _text(problem: Problem) -> str:
    tests = (text for test in problem.tests for text in test.to_json().values() if isinstance(text, str))
    return "\n".join((problem.shown, *problem.references, *tests))


def has_secret(text: str) -> bool:
    """Reads only texts that may have one: the patterns of all makers take longer than the rest of an examination."""
    is_long = any(any(map(str.isdigit, found)) for found in _LONG.findall(text))
    return (is_long or "://" in text or "PRIVATE" in text) and secrets(text) != text


def _count_rows(file: Path, name: str) -> int:
    """Raises InvalidArgument where a line is no JSON object."""
    rows = 0
    for number, line in numbered_lines(file):
        try:
            found = json_text.read(line)
        except json_text.NotJson as error:
            raise InvalidArgument(f"{name} line {number} {error}") from error
        if not isinstance(found, dict):
            raise InvalidArgument(f"{name} line {number} is not an object: {json.dumps(found)[:60]}")
        rows += 1
    if not rows:
        raise InvalidArgument(f"{name} holds no rows")
    return rows


def sha256_of(file: Path) -> str:
    """Hex."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
