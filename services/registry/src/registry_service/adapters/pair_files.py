"""PairFiles beside FsspecDatasetFiles: in the same folder, contents by their sha256."""

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from ratchet_kit import storage
from ratchet_kit.disk_errors import disk_errors
from ratchet_problems import pair_tables
from ratchet_problems.pairs import Pair
from registry_service.adapters.dataset_files import CONTENTS, PRIVATE, UPLOADS, counted, put_together, sha256_of
from registry_service.domain.dataset import MAX_CHUNK, Content, PairContent, Tell, Upload
from registry_service.domain.finding import Kind, said


class FsspecPairFiles:
    def __init__(self, root: str) -> None:
        """Raises InvalidArgument for a URL that cannot be used."""
        self._root = storage.Folder(root)

    async def examine(
        self, dataset: str, split: str, upload: Upload, forgotten: Mapping[str, datetime], tell: Tell
    ) -> PairContent:
        return await asyncio.to_thread(self._examine, dataset, split, upload, forgotten, tell)

    async def without(self, sha256: str, forgotten: Mapping[str, datetime]) -> PairContent:
        return await asyncio.to_thread(self._without, sha256, forgotten)

    def _examine(
        self, dataset: str, split: str, upload: Upload, forgotten: Mapping[str, datetime], tell: Tell
    ) -> PairContent:
        parts = self._root.child(f"{UPLOADS}/{dataset}/{split}")
        with disk_errors(tempfile.gettempdir()), tempfile.TemporaryDirectory(prefix="ratchet-pairs-") as folder:
            whole = Path(folder, "upload")
            storage.require_space(whole.parent, 2 * upload.size_bytes)
            put_together(parts, split, upload, whole)
            return self._keep(whole, split, forgotten, tell)

    def _without(self, sha256: str, forgotten: Mapping[str, datetime]) -> PairContent:
        name = f"{CONTENTS}/{sha256}"
        with disk_errors(tempfile.gettempdir()), tempfile.TemporaryDirectory(prefix="ratchet-pairs-") as folder:
            whole, done = Path(folder, "content"), 0
            with whole.open("wb") as file:
                while part := self._root.read(name, done, done + MAX_CHUNK):
                    done += file.write(part)
            return self._keep(whole, "content", forgotten)

    def _keep(
        self, file: Path, name: str, forgotten: Mapping[str, datetime], tell: Tell = lambda done, total: None
    ) -> PairContent:
        kept = file.with_name("kept")
        tally = _Tally(forgotten)
        table = pair_tables.write(tally.of(counted(pair_tables.checked(file, name), file, tell)), kept)
        if not table.rows:
            return PairContent(None, {}, tally.removed)
        content = Content(kept.stat().st_size, sha256_of(kept), table.rows, table.digest, tally.notices)
        self._root.put(f"{CONTENTS}/{content.sha256}", kept)
        return PairContent(content, tally.units, tally.removed)


class _Tally:
    """Counts the pairs that go by, and keeps whose they are."""

    def __init__(self, forgotten: Mapping[str, datetime]) -> None:
        self._forgotten = forgotten
        self.units: dict[str, datetime] = {}
        self.removed = 0
        self._private: dict[Kind, list[str]] = {kind: [] for kind in PRIVATE}

    def of(self, pairs: Iterator[Pair]) -> Iterator[Pair]:
        """Leaves out the forgotten ones."""
        for pair in pairs:
            if self._is_forgotten(pair):
                self.removed += 1
                continue
            if origin := pair.origin:
                for unit in origin.units:
                    self.units[unit] = min(origin.time, self.units.get(unit, origin.time))
            spoken = [message.content for message in pair.messages]
            text = "\n".join([*spoken, pair.text, pair.problem, pair.chosen, pair.rejected])
            for kind, is_one in PRIVATE.items():
                self._private[kind] += [pair.id] if is_one(text) else []
            yield pair

    def _is_forgotten(self, pair: Pair) -> bool:
        origin, times = pair.origin, self._forgotten
        return origin is not None and any(unit in times and origin.time <= times[unit] for unit in origin.units)

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(said(kind, "pair", ids) for kind, ids in self._private.items() if ids)
