"""Benchmarks' data, brought from their public home or from a file, checked, and kept."""

import hashlib
import http
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ratchet_benchmarks import folder, rows
from ratchet_benchmarks.benchmark import Benchmark, Edition
from ratchet_kit.errors import DataLoss, InvalidArgument, NotFound, Unavailable

Progress = Callable[[int, int], None]
"""Is given the bytes that are there, and all of them; 0 where that is not known."""
_CHUNK = 1 << 18
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Fetched:
    benchmark: Benchmark
    edition: Edition
    rows: int
    folder: Path
    origin: str
    """The address or file that they came from."""


def take(benchmark: Benchmark, file: Path, *, unchecked: bool = False) -> Fetched:
    """From a file: whichever edition it is.

    `unchecked`: also data that no edition has; their version is then the begin of their digest. Raises NotFound,
    InvalidArgument for a file that is not in the benchmark's form, DataLoss for unknown data.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise NotFound(f"{file} cannot be read: {error.strerror}") from error
    return _keep(benchmark, None, data, str(file), unchecked)


def fetch(benchmark: Benchmark, version: str = "", progress: Progress = lambda done, total: None) -> Fetched:
    """From its public home. What was fetched of it before an interruption is not fetched again.

    Raises NotFound for an unknown version, Unavailable where no home answers, DataLoss where what it gave is not what
    was published.
    """
    known = {edition.version: edition for edition in benchmark.editions}
    edition = known.get(version or benchmark.version)
    if edition is None:
        raise NotFound(f"{benchmark.name} has no version {version!r}: use one of {', '.join(known)}")
    faults = []
    for home in edition.homes:
        try:
            return _keep(benchmark, edition, _downloaded(benchmark, home, progress), home, False)
        except (Unavailable, DataLoss, InvalidArgument) as error:
            faults.append(error)
    by_file = f"with the file at hand: ratchet data fetch {benchmark.name} --from FILE"
    if not faults:
        raise Unavailable(f"{benchmark.name} {edition.version} has no address of its own; {by_file}")
    reason = "; ".join(fault.message for fault in faults)
    raise next((fault for fault in faults if isinstance(fault, DataLoss)), None) or Unavailable(f"{reason}; {by_file}")


def _keep(benchmark: Benchmark, wanted: Edition | None, data: bytes, origin: str, unchecked: bool) -> Fetched:
    try:
        table = [benchmark.adapt(row) for row in rows.parse(data, origin)]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidArgument(f"{origin} is not in a form of {benchmark.name}: {error!r}") from error
    kept = rows.canonical(table, benchmark.fields, origin)
    digest = hashlib.sha256(kept).hexdigest()
    edition = next((each for each in benchmark.editions if each.digest == digest), None)
    if edition is None and unchecked:
        edition = Edition(digest[:12], digest[:12])
    if edition is None or (wanted is not None and edition != wanted):
        known = ", ".join(f"{each.version} {each.digest[:12]}" for each in benchmark.editions)
        raise DataLoss(
            f"{origin} holds {f'version {edition.version}' if edition else 'no published state'} of {benchmark.name}: "
            f"its rows have digest {digest}, known are {known}"
        )
    return Fetched(benchmark, edition, len(table), folder.write_rows(benchmark, edition, kept), origin)


def _downloaded(benchmark: Benchmark, home: str, progress: Progress) -> bytes:
    """Raises Unavailable."""
    part = folder.root() / benchmark.name / f"{hashlib.sha256(home.encode()).hexdigest()[:16]}.part"
    part.parent.mkdir(parents=True, exist_ok=True)
    while True:
        before = _size(part)
        try:
            _go_on(home, part, progress)
            data = part.read_bytes()
        except urllib.error.HTTPError as error:
            raise Unavailable(f"{home} answers {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            if _size(part) <= before:
                reason = getattr(error, "reason", "") or error
                raise Unavailable(f"{home} cannot be reached: {reason}") from error
        else:
            part.unlink()
            return data


def _go_on(home: str, part: Path, progress: Progress) -> None:
    """From where the part ends. Raises OSError or HTTPException where the way broke off."""
    begin = _size(part)
    request = urllib.request.Request(home, headers={"Range": f"bytes={begin}-"} if begin else {})
    try:
        response = urllib.request.urlopen(request, timeout=_PATIENCE_S)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        part.unlink()  # it is longer than what is there now
        _go_on(home, part, progress)
        return
    with response, part.open("ab" if response.status == http.HTTPStatus.PARTIAL_CONTENT else "wb") as file:
        length = response.headers.get("Content-Length")
        total = file.tell() + int(length) if length else 0
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            progress(file.tell(), total)
        if file.tell() < total:
            raise http.client.IncompleteRead(b"", total - file.tell())


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0
