"""A version of a data set and its life.

    UPLOADING --the last byte--> EXAMINING --complete--> READY
                  ^                 |
                  |                 +---------fail-----> FAILED
              reexamine
             (from READY)

It has its number from the start. Once READY nothing of it changes but who used it; and where something in it is to be
forgotten, nobody reads it from then on, its files are deleted, and it is FAILED. The next version has the rest.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial

from ratchet_kit.errors import FailedPrecondition, Failure, InvalidArgument, NotFound
from ratchet_kit.faults import MAX_REASON, Faults
from ratchet_kit.names import DatasetRef, check_dataset_name, check_split_name
from ratchet_kit.work import FREE, Held
from ratchet_problems.balance import Balance
from ratchet_problems.sets import FAMILIES
from registry_service.domain.finding import Finding
from registry_service.domain.reference_runs import ReferenceRuns

MAX_SPLITS = 20
MAX_FILE_BYTES = 8 << 30
MAX_CHUNK = 1 << 20
"""Bytes that are written or read at once."""
ROWS = "rows"
"""The split of a public benchmark."""
TRAINING = "train"
"""The split that nothing is measured on, as a rule."""
MAX_TEXT = 200
NAMED = 20
Tell = Callable[[int, int], None]
"""Is given how much is done, and of how much (0: not known). Any thread may call it."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


class State(StrEnum):
    UPLOADING = "uploading"
    EXAMINING = "examining"
    READY = "ready"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self in (State.READY, State.FAILED)


@dataclass(frozen=True, slots=True)
class Card:
    """For people, and for what reads it."""

    description: str = ""
    source: str = ""
    licence: str = ""
    edition: str = ""
    """The public benchmark's edition whose rows it holds; empty: it holds problems."""
    made_of: str = ""
    """The version that it was made of, such as "mine@1"; empty: it was made of files."""
    pairs: bool = False
    """It holds pairs of answers, and no problems."""
    folders: bool = False
    """It holds task folders, and no problems."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file as the caller announces it."""

    size_bytes: int
    sha256: str
    """Hex."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a content, kept by its sha256 (hex)."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Content:
    """The kept form of a file that was examined."""

    size_bytes: int
    sha256: str
    """Hex; it is kept by this, unless it has `parts`."""
    rows: int
    digest: str = ""
    """`data_digest` of the problems, `pairs_digest`, or that of the manifest; empty for a benchmark's rows."""
    notices: tuple[str, ...] = ()
    """The findings as sentences."""
    balance: Balance | None = None
    """None for all but problems."""
    compared_sets: int = 0
    """Sets that its problems were compared with, and all problems in these."""
    compared_problems: int = 0
    references: ReferenceRuns | None = None
    """As they ran in a sandbox; None where nobody told. It is added once the content is READY."""
    parts: tuple[Part, ...] = ()
    """The manifest and each task folder, which versions share: one after another they are the content."""

    @property
    def kept(self) -> tuple[Part, ...]:
        return self.parts or (Part(self.sha256, self.size_bytes),)

    def at(self, offset: int) -> tuple[str, int, int]:
        """The part that has this byte, by its sha256, and where in it MAX_CHUNK bytes begin and end."""
        for part in self.kept:
            if offset < part.size_bytes:
                return part.sha256, offset, min(offset + MAX_CHUNK, part.size_bytes)
            offset -= part.size_bytes
        return part.sha256, part.size_bytes, part.size_bytes


@dataclass(frozen=True, slots=True)
class PairContent:
    """A content of pairs, and whose they are."""

    content: Content | None
    """None where all of them are forgotten."""
    units: Mapping[str, datetime]
    """By the digest of a user, a session or a key: the time of the earliest pair."""
    removed: int = 0
    """Pairs that are forgotten, and not in it."""


@dataclass(frozen=True, slots=True)
class Examined:
    """A file that was examined."""

    content: Content
    findings: Sequence[Finding] = ()


class Check(StrEnum):
    """The parts of an examination, in their order."""

    ROWS = "rows"
    """Each row is read and checked."""
    NEAR_DUPLICATES = "near-duplicates"
    """The problems are compared with one another and with other sets."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the examination of a split is."""

    check: Check
    done: int
    """Rows that are checked, or sets that it is compared with."""
    total: int
    """0: not known yet."""


class Seen:
    """How far an examination is, by split, as those say who examine."""

    def __init__(self) -> None:
        self.progress: dict[str, Progress] = {}

    def rows(self, split: str) -> Tell:
        return partial(self._tell, Check.ROWS, split)

    def compared(self, split: str, done: int, total: int) -> None:
        """`done`, `total`: sets."""
        self._tell(Check.NEAR_DUPLICATES, split, done, total)

    def _tell(self, check: Check, split: str, done: int, total: int) -> None:
        self.progress[split] = Progress(check, done, total)


@dataclass(frozen=True, slots=True)
class Split:
    upload: Upload
    received: int = 0
    """Bytes of the upload that are there."""
    content: Content | None = None
    progress: Progress | None = None
    """While it is examined."""

    @property
    def is_whole(self) -> bool:
        return self.received == self.upload.size_bytes


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """A data set as a caller asks for it."""

    name: str
    card: Card
    uploads: Mapping[str, Upload]
    """By split."""

    def check(self) -> None:
        """Raises InvalidArgument."""
        faults = Faults()
        faults.read("name", check_dataset_name, self.name)
        if self.name in FAMILIES:
            faults.add("name", f"must not be {self.name}: problems of Ratchet's own are called so")
        faults.length("card.description", self.card.description, MAX_REASON)
        for field in ("source", "licence", "edition", "made_of"):
            faults.length(f"card.{field}", getattr(self.card, field), MAX_TEXT)
        if faults.required("splits", self.uploads):
            faults.length("splits", self.uploads, MAX_SPLITS)
        if self.card.made_of:
            faults.read("card.made_of", DatasetRef.parse, self.card.made_of)
        if self.card.edition and list(self.uploads) != [ROWS]:
            faults.add("splits", f"must be one, {ROWS!r}, for a benchmark's edition")
        if self.card.edition and self.card.pairs:
            faults.add("card.pairs", "must not be set for a benchmark's edition")
        if self.card.folders and (self.card.edition or self.card.pairs):
            faults.add("card.folders", "must not be set for pairs and for a benchmark's edition")
        for split, upload in list(self.uploads.items())[:MAX_SPLITS]:
            faults.read(f"splits.{split[:40]}.name", check_split_name, split)
            faults.bounds(f"splits.{split[:40]}.size_bytes", upload.size_bytes, at_least=1, at_most=MAX_FILE_BYTES)
            if not _SHA256.fullmatch(upload.sha256):
                faults.add(f"splits.{split[:40]}.sha256", "must be 64 hex digits: the sha256 of the file")
        faults.raise_if_any("the data set cannot be made")


@dataclass(frozen=True, slots=True)
class Dataset(Held):
    name: str
    number: int
    card: Card
    splits: Mapping[str, Split]
    create_time: datetime
    actor: str = ""
    state: State = State.UPLOADING
    failure: Failure | None = None
    end_time: datetime | None = None
    uses: int = 0
    """Runs and evaluations that used it, deleted ones too."""
    last_user: str = ""

    @property
    def ref(self) -> DatasetRef:
        return DatasetRef(self.name, self.number)

    @property
    def id(self) -> str:
        return str(self.ref)

    @property
    def received(self) -> int:
        """Bytes of all uploads that are there."""
        return sum(split.received for split in self.splits.values())

    @property
    def progress(self) -> Mapping[str, Progress]:
        """How far the examination of each split is."""
        return {name: split.progress for name, split in self.splits.items() if split.progress}

    def split(self, name: str) -> Split:
        """Raises NotFound, with those that there are."""
        if name not in self.splits:
            raise NotFound(f"data set {self.ref} has no split {name!r}; it has {', '.join(self.splits)}")
        return self.splits[name]

    def content(self, split: str) -> Content:
        """Raises NotFound; FailedPrecondition unless it is READY."""
        found = self.split(split)
        if self.failure is not None:
            raise FailedPrecondition(f"data set {self.ref} has no content: {self.failure.message}")
        if found.content is None or self.state is not State.READY:
            raise FailedPrecondition(f"data set {self.ref} is {self.state}: it has no content yet")
        return found.content

    def check_write(self, split: str, offset: int, size: int) -> None:
        """Raises NotFound, FailedPrecondition or InvalidArgument where these bytes cannot be written."""
        found = self.split(split)
        if self.state is not State.UPLOADING:
            raise FailedPrecondition(f"data set {self.ref} is {self.state}: nothing more is written to it")
        if not 0 < size <= MAX_CHUNK:
            raise InvalidArgument(f"data must have 1 to {MAX_CHUNK} bytes; not {size}")
        if offset != found.received:
            raise FailedPrecondition(
                f"{split} of data set {self.ref} has {found.received} bytes: go on there, not at {offset}"
            )
        if offset + size > found.upload.size_bytes:
            raise InvalidArgument(f"{split} was announced with {found.upload.size_bytes} bytes: these are more")

    def written(self, split: str, offset: int, size: int) -> "Dataset":
        """With these bytes; EXAMINING with the last ones. Raises as `check_write`."""
        self.check_write(split, offset, size)
        splits = {**self.splits, split: replace(self.splits[split], received=offset + size)}
        whole = all(one.is_whole for one in splits.values())
        return replace(self, splits=splits, state=State.EXAMINING if whole else State.UPLOADING)

    def examined_to(self, owner: str, progress: Mapping[str, Progress]) -> "Dataset":
        """`progress`: by split."""
        self.check_held(owner)
        splits = {name: replace(split, progress=progress.get(name)) for name, split in self.splits.items()}
        return replace(self, splits=splits)

    def complete(self, owner: str, contents: Mapping[str, Content], now: datetime) -> "Dataset":
        self.check_held(owner)
        splits = {
            name: replace(self.splits[name], content=content, progress=None) for name, content in contents.items()
        }
        return replace(self, state=State.READY, splits=splits, end_time=now, hold=FREE)

    def fail(self, owner: str, failure: Failure, now: datetime) -> "Dataset":
        """One that is to forget something is only left to the next worker: it does not end before it has."""
        self.check_held(owner)
        if self.is_forgetting:
            return replace(self, hold=FREE)
        ended = self.examined_to(owner, {})
        return replace(ended, state=State.FAILED, failure=failure, end_time=now, hold=FREE)

    @property
    def is_forgetting(self) -> bool:
        """It was READY, and something in it is to be forgotten."""
        return self.state is State.EXAMINING and any(split.content for split in self.splits.values())

    def reexamine(self) -> "Dataset":
        """Something in it is to be forgotten."""
        assert self.state is State.READY
        return replace(self, state=State.EXAMINING, end_time=None, hold=FREE)

    def forget(self, owner: str, failure: Failure, now: datetime) -> "Dataset":
        """Without its contents. Raises as `check_held`."""
        self.check_held(owner)
        splits = {name: replace(split, content=None) for name, split in self.splits.items()}
        return replace(self, splits=splits).fail(owner, failure, now)

    def with_references(self, split: str, runs: ReferenceRuns) -> "Dataset":
        """Raises as `content`."""
        content = replace(self.content(split), references=runs)
        return replace(self, splits={**self.splits, split: replace(self.splits[split], content=content)})

    def check_deletable(self, *, force: bool) -> None:
        """Raises FailedPrecondition when it was used, unless that was said to be known."""
        if self.uses and not force:
            times = "once" if self.uses == 1 else f"{self.uses} times"
            raise FailedPrecondition(
                f"data set {self.ref} cannot be deleted: it was used {times} ({self.last_user} the last), and what "
                "used it could not be repeated; set force to delete it anyway"
            )

    @property
    def label(self) -> str:
        return f"data set {self.ref}"

    def check_open(self) -> None:
        if self.state is not State.EXAMINING:
            raise FailedPrecondition(f"{self.label} is {self.state}")


def not_there(ref: DatasetRef, numbers: Sequence[int], names: Sequence[str]) -> NotFound:
    """With what there is. `numbers`: of the name, where it has any; else `names`: of all data sets."""
    if numbers:
        wanted = f"version {ref.number}" if ref.number is not None else "version that is ready"
        return NotFound(f"data set {ref.name} has no {wanted}; it has {_listed(numbers)}")
    there_are = (
        f"there {'is' if len(names) == 1 else 'are'} {_listed(names)}" if names else "there are no data sets yet"
    )
    return NotFound(f"there is no data set {ref.name[:80]!r}; {there_are}")


def _listed(things: Sequence[object]) -> str:
    more = f" and {len(things) - NAMED} more" if len(things) > NAMED else ""
    return ", ".join(map(str, things[:NAMED])) + more
