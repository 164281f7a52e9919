"""The journal of loaded policies: one JSON file per policy."""

import asyncio
import os
from pathlib import Path

import msgspec

from ratchet_kit import files
from ratchet_kit.logs import get_logger
from ratchet_kit.work import surviving
from rollout_service.domain.policy import PolicyName
from rollout_service.domain.ports import KeptPolicy

log = get_logger(__name__)


class FileJournal:
    """See `PolicyJournal`. `folder` holds nothing else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def keep(self, kept: KeptPolicy) -> None:
        with surviving("keep policy", policy=kept.policy.name):
            try:
                await asyncio.to_thread(self._write, kept)
            except OSError:
                await self.forget(kept.policy.name)  # what it says is true no longer
                raise

    async def forget(self, name: PolicyName) -> None:
        with surviving("forget policy", policy=name):
            self._file(name).unlink(missing_ok=True)

    async def kept(self) -> list[KeptPolicy]:
        return [kept for file in sorted(self._folder.glob("*.json")) if (kept := _read(file)) is not None]

    def _file(self, name: PolicyName) -> Path:
        return self._folder / f"{name}.json"

    def _write(self, kept: KeptPolicy) -> None:
        with files.whole(self._file(kept.policy.name)) as draft, draft.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(kept)))
            file.flush()
            os.fsync(file.fileno())


def _read(file: Path) -> KeptPolicy | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=KeptPolicy)
    except msgspec.DecodeError as error:  # written by another version of this service
        log.warning("journal.unreadable", file=str(file), reason=str(error))
        return None
