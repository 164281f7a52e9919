"""Task folders as one file, which is a split of a data set: a manifest, then folder after folder, each a tar.

manifest.jsonl           a line for each task: its folder, name, judge and digests
<folder>/task.toml ...   a folder's files, of mode 755 or 644, without owners and times

The same folders give the same bytes. `tar -xif` unpacks it.
"""

import hashlib
import json
import os
import re
import shutil
import tarfile
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from ratchet_environments.folders import folder as task_folder
from ratchet_environments.folders.folder import Judge, TaskFolder
from ratchet_environments.folders.tree import MOST_BYTES, File, Tree, packed, unpacked
from ratchet_kit import json_text
from ratchet_kit.errors import InvalidArgument, invalid
from ratchet_kit.faults import Faults
from ratchet_problems import CheckTest, Problem, files

MOST_TASKS = 2_000
MOST_FAULTS = 20
_MANIFEST, _MANIFEST_BYTES = "manifest.jsonl", 4 << 20
_TAR_BYTES = 5 * MOST_BYTES
_OTHERWISE = "is not packed as `ratchet data add` packs it"
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the manifest."""

    folder: str
    name: str
    judge: str
    environment: str
    """Digest of its files; so are `tests` and `solution`. Empty: no files."""
    tests: str
    solution: str
    size_bytes: int
    """Size of its tar."""
    sha256: str
    """Digest of its tar, hex."""

    @property
    def forgeable(self) -> bool:
        return self.judge == Judge.PROCESS


class TaskSet:
    """The tasks of a split. A folder is read when it is asked for, also after the file was deleted: the data sets of a
    machine make room for others."""

    def __init__(self, file: Path) -> None:
        """Raises InvalidArgument for a file that is no such split, OSError."""
        with file.open("rb") as opened:
            self.entries = tuple(entries(opened))
            self._opened, size = os.dup(opened.fileno()), file.stat().st_size
        weakref.finalize(self, os.close, self._opened)
        self._starts: dict[str, int] = {}
        for entry in reversed(self.entries):
            size -= entry.size_bytes
            self._starts[entry.folder] = size
        if size < 0:
            raise invalid(_MANIFEST, "says more bytes than there are")
        self.head = self._bytes(0, size)
        """The manifest's tar."""

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[TaskFolder]:
        return map(self.read, self.entries)

    def read(self, entry: Entry) -> TaskFolder:
        """Raises InvalidArgument for a folder that is at fault, OSError."""
        return task_folder.interpret(self.files(entry), entry.folder)

    def files(self, entry: Entry) -> Tree:
        """All files of the folder. Raises as `read`."""
        found, _ = unpacked(self.tar(entry), entry.folder, _TAR_BYTES)
        return {path.removeprefix(f"{entry.folder}/"): file for path, file in found.items()}

    def tar(self, entry: Entry) -> bytes:
        return self._bytes(self._starts[entry.folder], entry.size_bytes)

    def check(self, split: str, tell: Callable[[int, int], None]) -> None:
        """Raises InvalidArgument with up to MOST_FAULTS faults unless each is a task folder, packed as it is here, and
        as the manifest says. `tell` is given how many are checked, and all."""
        faults = Faults(f"{split}/")
        faults.unless(self.head == _head(self.entries), _MANIFEST, _OTHERWISE)
        for number, entry in enumerate(self.entries):
            tell(number, len(self))
            faults.read(entry.folder, self._checked, entry)
            if len(faults.violations) >= MOST_FAULTS:
                break
        faults.raise_if_any()

    def _checked(self, entry: Entry, field: str) -> None:
        found = self.files(entry)
        task, tar = task_folder.interpret(found, entry.folder), _tar(entry.folder, found)
        if tar != self.tar(entry):
            raise invalid(field, _OTHERWISE)
        if entry != _entry(entry.folder, task, found, tar):
            raise invalid(field, "is not as the manifest says")

    def _bytes(self, start: int, size: int) -> bytes:
        return os.pread(self._opened, size, start)


def problems(tasks: TaskSet, limit: int | None = None) -> Mapping[str, Problem]:
    """Tasks as problems, by the digests of their tars: a problem's prompt is the instruction, and its only test, which
    nothing runs, stands for the folder. The first `limit`; None: all. Raises as `TaskSet.read`."""
    return {entry.sha256: _problem(entry, tasks.read(entry)) for entry in tasks.entries[:limit]}


def _problem(entry: Entry, task: TaskFolder) -> Problem:
    of_folder = CheckTest(f"{entry.environment} {entry.tests}", held_out=True)
    return Problem(entry.name, task.instruction, (of_folder,), source=f"sha256:{entry.sha256}")


def splits(paths: Sequence[Path]) -> Mapping[str, Sequence[Path]]:
    """The task folders of each split, by the name of the folder that they lie in ("validation", else "train"); none if
    no path holds any. Raises InvalidArgument if only some do."""
    holding = [
        [path] if _holds(path) else list(filter(_holds, (path / name for name in files.SPLITS))) for path in paths
    ]
    if not any(holding):
        return {}
    made: dict[str, list[Path]] = {}
    for found in task_folder.find([one for path, ones in zip(paths, holding, strict=True) for one in ones or [path]]):
        parent = found.resolve().parent.name
        made.setdefault(parent if parent in files.SPLITS else "train", []).append(found)
    return made


def write(folders: Mapping[str, Sequence[Path]], into: Path) -> Mapping[str, Path]:
    """A file in `into` for each split. Raises InvalidArgument with up to MOST_FAULTS faults, by folder and file."""
    faults, named = Faults(), dict[str, Path]()
    made = {split: into / f"{split}.tar" for split in folders}
    for split, paths in folders.items():
        if len(paths) > MOST_TASKS:
            raise invalid(split, f"has more than {MOST_TASKS} task folders")
        with tempfile.TemporaryFile(dir=into) as tars, made[split].open("wb") as file:
            found: list[Entry] = []
            for path in sorted(paths, key=lambda path: path.resolve().name):
                try:
                    entry, tar = _packed(path, named)
                except InvalidArgument as error:
                    faults.extend(error.violations)
                    if len(faults.violations) == MOST_FAULTS:
                        faults.raise_if_any()
                    continue
                found.append(entry)
                tars.write(tar)
            file.write(_head(found))
            tars.seek(0)
            shutil.copyfileobj(tars, file)
    faults.raise_if_any()
    return made


def unpack(tasks: TaskSet, into: Path) -> None:
    """Writes the folders below `into`, which is made: all of them or none. Raises InvalidArgument for one that is there
    already, OSError."""
    if into.exists():
        raise invalid(str(into), "is there already: delete it, or name another place")
    new = Path(tempfile.mkdtemp(dir=into.parent, prefix=f".{into.name}-"))
    try:
        for entry in tasks.entries:
            for path, file in tasks.files(entry).items():
                target = new / "tasks" / entry.folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.content)
                target.chmod(file.mode)
        (new / "tasks").rename(into)
    finally:
        shutil.rmtree(new)


def _holds(path: Path) -> bool:
    return (path / "task.toml").is_file() or any(path.glob("*/task.toml"))


def _packed(path: Path, named: dict[str, Path]) -> tuple[Entry, bytes]:
    """`named`: folders by their own name and by their task's, to which this one is added."""
    folder = path.resolve().name
    if not _FOLDER.fullmatch(folder):
        raise invalid(str(path), "needs another name: letters, digits, '.', '_', '-', 100 at most")
    found = task_folder.files(path)
    try:
        task = task_folder.interpret(found, folder)
    except InvalidArgument as error:
        raise invalid(str(path.parent / error.violations[0].field), error.violations[0].description) from error
    for kind, name in (("folder", folder), ("task", task.name)):
        if (other := named.setdefault(f"{kind} {name}", path)) != path:
            raise invalid(str(path), f"and {other} have the same name of the {kind}, {name}: rename one")
    tar = _tar(folder, found)
    return _entry(folder, task, found, tar), tar


def _tar(folder: str, found: Tree) -> bytes:
    return packed({f"{folder}/{path}": found[path] for path in sorted(found)})


def _entry(folder: str, task: TaskFolder, found: Tree, tar: bytes) -> Entry:
    environment, tests, solution = (_digest(found, f"{part}/") for part in task_folder.PARTS)
    sha256 = hashlib.sha256(tar).hexdigest()
    return Entry(folder, task.name, task.judge.value, environment, tests, solution, len(tar), sha256)


def _digest(found: Tree, below: str) -> str:
    lines = [
        f"{found[path].mode:o} {hashlib.sha256(found[path].content).hexdigest()} {path}\n"
        for path in sorted(found)
        if path.startswith(below)
    ]
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}" if lines else ""


def _head(found: Sequence[Entry]) -> bytes:
    lines = "".join(json.dumps(asdict(entry)) + "\n" for entry in found)
    return packed({_MANIFEST: File(lines.encode())})


def entries(file: IO[bytes]) -> Iterator[Entry]:
    """Tasks of the manifest that a file begins with. Raises InvalidArgument where it begins with none."""
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            first = archive.next()
            content = archive.extractfile(first) if first and first.name == _MANIFEST and first.isreg() else None
            text = content.read(_MANIFEST_BYTES + 1) if content else b""
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise invalid(_MANIFEST, f"can't be read: {error}") from error
    lines = text.splitlines()
    if not lines or len(text) > _MANIFEST_BYTES or len(lines) > MOST_TASKS:
        raise invalid(_MANIFEST, f"must be the first file, with 1 to {MOST_TASKS} tasks in {_MANIFEST_BYTES} bytes")
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        try:
            entry = Entry(**json_text.read(line))
            is_one = _FOLDER.fullmatch(entry.folder) and 0 < entry.size_bytes <= _TAR_BYTES
        except (json_text.NotJson, TypeError) as error:
            raise invalid(f"{_MANIFEST}:{number}", f"is no task: {error}") from error
        if not is_one or not seen.isdisjoint(names := (f"folder {entry.folder}", f"task {entry.name}")):
            raise invalid(f"{_MANIFEST}:{number}", "must name a folder and a task of its own, and the bytes of its tar")
        seen.update(names)
        yield entry
