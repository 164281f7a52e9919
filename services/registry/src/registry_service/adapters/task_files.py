"""TaskFiles beside FsspecDatasetFiles: in the same folder, the manifest and each task folder by its sha256."""

import asyncio
import hashlib
import tempfile
from pathlib import Path

from ratchet_environments.folders.sets import TaskSet
from ratchet_kit import storage
from ratchet_kit.disk_errors import disk_errors
from registry_service.adapters.dataset_files import CONTENTS, UPLOADS, put_together
from registry_service.domain.dataset import Content, Examined, Part, Tell, Upload
from registry_service.domain.finding import Finding, Kind, said


class FsspecTaskFiles:
    def __init__(self, root: str) -> None:
        """Raises InvalidArgument for a URL that cannot be used."""
        self._root = storage.Folder(root)

    async def examine(self, dataset: str, split: str, upload: Upload, tell: Tell) -> Examined:
        return await asyncio.to_thread(self._examine, dataset, split, upload, tell)

    def _examine(self, dataset: str, split: str, upload: Upload, tell: Tell) -> Examined:
        parts = self._root.child(f"{UPLOADS}/{dataset}/{split}")
        with disk_errors(tempfile.gettempdir()), tempfile.TemporaryDirectory(prefix="ratchet-tasks-") as folder:
            whole = Path(folder, "upload")
            storage.require_space(whole.parent, upload.size_bytes)
            put_together(parts, split, upload, whole)
            tasks = TaskSet(whole)
            tasks.check(split, tell)
            kept = [self._kept(tasks.head)] + [self._kept(tasks.tar(entry)) for entry in tasks.entries]
        forgeable = [entry.name for entry in tasks.entries if entry.forgeable]
        unsolved = [entry.name for entry in tasks.entries if not entry.solution]
        found = {Kind.NO_REFERENCE: unsolved, Kind.FORGEABLE_TESTS: forgeable}
        notices = tuple(said(kind, "task", names) for kind, names in found.items() if names)
        digest = f"sha256:{kept[0].sha256}"
        content = Content(upload.size_bytes, upload.sha256, len(tasks), digest, notices, parts=tuple(kept))
        return Examined(content, [Finding(kind, split, name) for kind, names in found.items() for name in names])

    def _kept(self, data: bytes) -> Part:
        part = Part(hashlib.sha256(data).hexdigest(), len(data))
        self._root.write(f"{CONTENTS}/{part.sha256}", data)
        return part
