"""The checkpoints of a run on disk. Paths and files: no torch, no verl.

    work_dir/checkpoints/attempt-<a>/global_step_<n>/   what verl wrote: model, optimizer, RNG, data position
    work_dir/checkpoints/attempt-<a>/global_step_<n>/COMPLETE
    work_dir/exports/step-<n>-attempt-<a>/              the Hugging Face model of a validated step; or below export_uri
    export_uri/checkpoints/attempt-<a>-step-<n>/        a copy of the checkpoint, where that is an object store

A checkpoint counts once COMPLETE is there, which is written after the step has been reported: a job that is killed
at any moment resumes from a step that the service knows of, and repeats the steps after it. An attempt writes below its
own name only, and removes what older ones left: one that lives on when the next has begun can harm nothing of it.

A copy in the object store counts once COMPLETE is there, too, which is written after all else and removed before it.
"""

import json
import os
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from ratchet_kit import files, storage
from ratchet_kit.statistics import Estimate
from ratchet_kit.storage import Folder

MARKER = "COMPLETE"
COPIES = "checkpoints"
"""The folder of copies, beside the exports."""
_COPY = re.compile(r"attempt-(\d+)-step-(\d+)")
_CHECKPOINT = re.compile(r"attempt-(\d+)/global_step_(\d+)")


@dataclass(frozen=True, slots=True)
class Export:
    """A Hugging Face model made by a step."""

    step: int
    uri: str
    policy_id: str
    validation_score: float | None
    """Higher is better; None when the step was not validated."""
    interval: Estimate | None = None
    """Of the score; None where it has none."""


@dataclass(frozen=True, slots=True, order=True)
class Saved:
    """A checkpoint on disk. The newest is of the newest attempt, whatever an older one that lives on has done since."""

    attempt: int
    step: int
    folder: Path

    @property
    def is_complete(self) -> bool:
        return (self.folder / MARKER).is_file()

    @property
    def tokens(self) -> int:
        """That the run had trained on; of a complete one."""
        return int(self._marked.get("tokens", 0))

    @property
    def size(self) -> int:
        """Bytes that it was written with; of a complete one."""
        return int(self._marked.get("bytes", 0)) or _size(self.folder)

    @property
    def _marked(self) -> dict[str, int]:
        marked: dict[str, int] = json.loads((self.folder / MARKER).read_text())
        return marked


@dataclass(frozen=True, slots=True)
class Checkpoints:
    work_dir: Path
    attempt: int
    export_uri: str = ""
    """Folder or URL that exports are moved to. Empty: they stay in `work_dir`."""
    first_bytes: int = 0
    """What the first one takes at least."""

    @property
    def root(self) -> Path:
        """Folder of the checkpoints that this attempt writes."""
        return self.work_dir / "checkpoints" / f"attempt-{self.attempt}"

    def folder(self, step: int) -> Path:
        return self.root / f"global_step_{step}"

    def latest(self) -> Saved | None:
        """The newest complete one, of this attempt or of those before."""
        return max((one for one in self._saved() if one.is_complete), default=None)

    def resume(self) -> Saved | None:
        """The checkpoint that this attempt resumes from, on this disk; all others are removed. Raises what
        `ratchet_kit.storage.Folder` raises."""
        self._fetch()
        self.sweep()
        return self.latest()

    def _fetch(self) -> None:
        """Copies the newest checkpoint of the object store to this disk, where it has none as new: it is another's, or
        was lost."""
        known = self.latest()
        for copy, folder in sorted(self._copies().items(), reverse=True):
            if known is not None and known >= copy:
                return
            if MARKER not in folder.names():
                continue
            partial = copy.folder.with_name(f".{copy.folder.name}")
            for one in (partial, copy.folder):
                shutil.rmtree(one, ignore_errors=True)
            folder.download(partial)
            os.replace(partial, copy.folder)
            return

    def sweep(self) -> None:
        """Removes what attempts before this one left, but for the checkpoint that it resumes from."""
        self._keep(self.latest())

    def require_space(self) -> None:
        """Raises ResourceExhausted where the disk has no room for another checkpoint like the last one, or for the
        first."""
        latest = self.latest()
        if size := self.first_bytes if latest is None else latest.size:
            storage.require_space(self.work_dir, size)

    def size(self, step: int) -> int:
        """Bytes of what is written of the checkpoint of `step`. An export takes its model away."""
        return _size(self.folder(step))

    def export(self, step: int, written: Path) -> str:
        """Moves the Hugging Face model inside the checkpoint to where it is kept, and returns its URI.

        Raises what `ratchet_kit.storage.Folder` raises.
        """
        folder = self._export_folder(step, self.attempt)
        folder.delete()
        if self.export_uri:
            folder.upload(written)
            shutil.rmtree(written)
            return folder.uri
        target = Path(folder.uri)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(written, target)
        return str(target)

    def remove_repeated_exports(self, step: int) -> None:
        """Those of the step that attempts before this one made: the service knows this one's now."""
        for attempt in range(1, self.attempt):
            self._export_folder(step, attempt).delete()

    def complete(self, step: int, tokens: int = 0, size: int = 0) -> None:
        """Marks the checkpoint of `step` and removes the older ones: one is enough to resume from. `size`: bytes that
        it was written with; 0: those that it has. May be done twice. Raises what `ratchet_kit.storage.Folder` raises.
        """
        folder = self.folder(step)
        marked = json.dumps({"step": step, "tokens": tokens, "bytes": size})
        if (store := self._store) is not None:
            copy = store.child(f"attempt-{self.attempt}-step-{step}")
            copy.upload(folder)
            copy.write(MARKER, marked.encode())
        with files.whole(folder / MARKER) as draft, draft.open("w") as opened:
            opened.write(marked)
            opened.flush()
            os.fsync(opened.fileno())
        self._keep(Saved(self.attempt, step, folder))

    def _keep(self, kept: Saved | None) -> None:
        for one in self._saved():
            if one != kept:
                shutil.rmtree(one.folder, ignore_errors=True)  # an attempt that still writes there is no longer wanted
        for one, copy in self._copies().items():
            if one != kept:
                copy.child(MARKER).delete()
                copy.delete()

    @property
    def _store(self) -> Folder | None:
        """Folder of copies; None where exports stay on a disk, beside which they would be no safer."""
        store = Folder(self.export_uri).child(COPIES) if self.export_uri else None
        return store if store and store.local is None else None

    def _copies(self) -> dict[Saved, Folder]:
        """Whole or not, and what they are copies of; none of an attempt after this one."""
        if (store := self._store) is None:
            return {}
        found = {}
        for name in store.names():
            match = _COPY.fullmatch(name)
            if match and int(match[1]) <= self.attempt:
                attempt, step = int(match[1]), int(match[2])
                found[Saved(attempt, step, replace(self, attempt=attempt).folder(step))] = store.child(name)
        return found

    def _saved(self) -> list[Saved]:
        """Complete or not; none of an attempt after this one."""
        found = []
        for folder in (self.work_dir / "checkpoints").glob("attempt-*/global_step_*"):
            match = _CHECKPOINT.fullmatch(f"{folder.parent.name}/{folder.name}")
            if match and int(match[1]) <= self.attempt:
                found.append(Saved(int(match[1]), int(match[2]), folder))
        return found

    def _export_folder(self, step: int, attempt: int) -> Folder:
        return Folder(self.export_uri or str(self.work_dir / "exports")).child(f"step-{step}-attempt-{attempt}")


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
