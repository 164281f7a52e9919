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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from phonenumbers import PhoneNumberMatcher

from ratchet_environments.folders import sets
from ratchet_kit import json_text, storage
from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.errors import DataLoss, InvalidArgument, Unavailable
from ratchet_kit.names import DatasetRef
from ratchet_kit.redaction import has_email, has_secret
from ratchet_problems import InvalidProblem, Problem, examine, tables
from ratchet_problems.balance import Balancer
from ratchet_problems.jsonl import MOST_FAULTS, at_fault, numbered_lines
from ratchet_problems.near.sketches import Drawn, Sketcher, draw, shared_out
from registry_service.adapters.alike import FsspecSketchStore
from registry_service.domain.dataset import Content, Examined, Tell, Upload
from registry_service.domain.finding import Finding, Kind

T = TypeVar("T")
UPLOADS, CONTENTS = "uploads", "contents"
_LARGE = 32 << 20
"""Bytes of a file that a second process helps with."""
_COUNTED_AT_ONCE = 1_000
_MAYBE_PHONE = re.compile(r"\+ ?\(?\d[\d ().\-/]{6,}")
_LONG = re.compile(r"[\w+/=.:-]{16,}")
"""No key and no token is shorter."""
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[A-Za-z]")
"""A key has both: long numbers and long names are no keys."""


class FsspecDatasetFiles:
    """Keeps data sets under `root`. A content is made in a file of this machine first, and is never changed."""

    def __init__(self, root: str, sketches: FsspecSketchStore) -> None:
        """`sketches`: where those of each content are put. Raises InvalidArgument for a URL that cannot be used."""
        self._root = storage.Folder(root)
        self._sketches = sketches

    async def write_chunk(self, dataset: str, split: str, offset: int, data: bytes) -> None:
        part = f"{UPLOADS}/{dataset}/{split}/{offset:015d}"
        await asyncio.to_thread(self._root.write, part, data)

    async def examine(self, dataset: str, split: str, upload: Upload, tell: Tell, *, as_rows: bool) -> Examined:
        return await asyncio.to_thread(self._examine, dataset, split, upload, tell, as_rows)

    async def read(self, sha256: str, start: int, end: int) -> bytes:
        return await asyncio.to_thread(self._root.read, f"{CONTENTS}/{sha256}", start, end)

    async def missing(self, sha256s: Sequence[str]) -> Sequence[str]:
        def missing() -> list[str]:
            there = set(self._root.child(CONTENTS).names())
            return [sha256 for sha256 in sha256s if sha256 not in there]

        return await asyncio.to_thread(missing)

    async def unknown(self, sha256: str, ids: Collection[str]) -> Sequence[str]:
        return await asyncio.to_thread(self._unknown, sha256, ids)

    async def uploads(self) -> Sequence[str]:
        return await asyncio.to_thread(self._root.child(UPLOADS).names)

    async def discard(self, dataset: str) -> None:
        await asyncio.to_thread(self._root.child(f"{UPLOADS}/{dataset}").delete)

    async def delete(self, sha256: str) -> None:
        await asyncio.to_thread(self._root.child(f"{CONTENTS}/{sha256}").delete)

    def _unknown(self, sha256: str, ids: Collection[str]) -> Sequence[str]:
        left = dict.fromkeys(ids)
        with self._root.opened(f"{CONTENTS}/{sha256}") as file:
            is_table = file.read(len(tables.MAGIC)) == tables.MAGIC
            file.seek(0)
            for id in (tables.ids(file) if is_table else [it.name for it in sets.entries(file)]) if left else ():
                left.pop(id, None)
        return list(left)

    def _examine(self, dataset: str, split: str, upload: Upload, tell: Tell, as_rows: bool) -> Examined:
        parts = self._root.child(f"{UPLOADS}/{dataset}/{split}")
        with disk_errors(tempfile.gettempdir()), tempfile.TemporaryDirectory(prefix="ratchet-dataset-") as folder:
            whole, kept = Path(folder, "upload"), Path(folder, "content")
            storage.require_space(whole.parent, 2 * upload.size_bytes)
            put_together(parts, split, upload, whole)
            findings: list[Finding] = []
            balance = None
            if as_rows:
                rows, digest, kept = _count_rows(whole, split), "", whole
                self._sketches.keep_benchmark(DatasetRef.parse(dataset).name, upload.sha256, whole.read_bytes())
            else:
                with _helper(upload.size_bytes) as helper:
                    sketcher = Sketcher()
                    problems = counted(tables.checked(whole, split), whole, tell)
                    balancer = Balancer()
                    table = tables.write(balancer.of(_read(problems, split, helper, sketcher, findings)), kept)
                    self._sketches.keep(table.digest, sketcher.sketches())
                rows, digest, balance = table.rows, table.digest, balancer.balance()
            content = Content(kept.stat().st_size, sha256_of(kept), rows, digest, balance=balance)
            self._root.put(f"{CONTENTS}/{content.sha256}", kept)
        return Examined(content, findings)


def put_together(parts: storage.Folder, split: str, upload: Upload, whole: Path) -> None:
    """Writes the file of which the folder has the parts. Raises DataLoss, Unavailable."""
    with whole.open("wb") as file:
        for name in sorted(filter(str.isdigit, parts.sizes())):  # no part that was left half written
            file.write(parts.read(name))
    if sha256_of(whole) != upload.sha256:
        raise DataLoss(f"the bytes of {split} are not those that were announced: upload it again")


def counted(rows: Iterable[T], file: Path, tell: Tell) -> Iterator[T]:
    """The same rows, which are counted as they go by. `file`: the one that they come from."""
    total = tables.expected(file)
    for number, row in enumerate(rows):
        if number % _COUNTED_AT_ONCE == 0:
            tell(number, max(number, total))
        yield row


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


@dataclass(frozen=True, slots=True)
class _Seen:
    """The findings of some problems, one by one."""

    faults: Sequence[tuple[str, str]]
    """By the id of the problem."""
    findings: Sequence[Finding]
    drawn: Drawn


def _look(split: str, problems: Sequence[Problem]) -> _Seen:
    """All that takes time, for the other process, too."""
    faults = [(problem.id, fault) for problem in problems if problem.tests and (fault := examine(problem))]
    findings = [
        Finding(kind, split, problem.id, detail=detail) for problem in problems for kind, detail in _found(problem)
    ]
    return _Seen(faults, findings, draw(problems))


def _read(
    problems: Iterator[Problem], split: str, helper: Executor | None, sketcher: Sketcher, findings: list[Finding]
) -> Iterator[Problem]:
    """The same problems, whose sketches and findings are added. Raises InvalidArgument with faults of their code."""
    faults: list[InvalidProblem] = []
    for some, seen in shared_out(partial(_look, split), problems, helper):
        for id, fault in seen.faults:
            path, _, reason = fault.partition(": ")
            faults.append(InvalidProblem(id, path, reason))
        if len(faults) >= MOST_FAULTS:
            break
        findings += seen.findings
        sketcher.add(some, seen.drawn)
        yield from some
    if faults:
        raise at_fault(faults[:MOST_FAULTS])


def _found(problem: Problem) -> Iterator[tuple[Kind, str]]:
    """With where it was found, where that is not the whole problem."""
    if not problem.references:
        yield Kind.NO_REFERENCE, ""
    if not problem.tests:
        yield Kind.NO_TESTS, ""
    if problem.forgeable:
        yield Kind.FORGEABLE_TESTS, ""
    tests = (text for test in problem.tests for text in test.to_json().values() if isinstance(text, str))
    parts = {"prompt": problem.shown, "references": "\n".join(problem.references), "tests": "\n".join(tests)}
    for kind, is_one in PRIVATE.items():
        if where := [name for name, text in parts.items() if is_one(text)]:
            yield kind, ", ".join(where)


def _has_phone(text: str) -> bool:
    """Knows numbers with their country's code alone: any ten digits of a test may be a number of some country."""
    return _MAYBE_PHONE.search(text) is not None and PhoneNumberMatcher(text, None).has_next()


def _has_secret(text: str) -> bool:
    """Reads only texts that may have one: the patterns of all makers take longer than the rest of an examination."""
    is_long = any(_DIGIT.search(found) and _LETTER.search(found) for found in _LONG.findall(text))
    return (is_long or "://" in text or "PRIVATE" in text) and has_secret(text)


PRIVATE: Mapping[Kind, Callable[[str], bool]] = {
    Kind.SECRET: _has_secret,
    Kind.EMAIL: has_email,
    Kind.PHONE: _has_phone,
}
"""The checks of a text for something that is nobody's to learn, by kind."""


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
