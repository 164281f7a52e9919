"""ArtifactStore in a folder, or in an object store such as s3://bucket/prefix."""

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ratchet_kit import model_config, policy_id, storage
from ratchet_kit.allowed_sources import Places
from ratchet_kit.errors import DataLoss, InvalidArgument, ResourceExhausted
from registry_service.domain.version import Artifact


class FsspecArtifactStore:
    """Keeps artifacts under `root`.

    An artifact is copied to a staging folder on this machine, read there, and only then moved to its place: by a rename
    where the store is a local folder, by an upload where it is not.
    """

    def __init__(self, root: str, places: Places) -> None:
        """`places`: where sources may lie. Raises InvalidArgument for a URL that cannot be used."""
        self._root = storage.Folder(root)
        self._places = places

    def check(self, source_uri: str, field: str) -> str:
        return self._places.check(source_uri)

    async def ingest(self, source_uri: str, key: str) -> Artifact:
        return await asyncio.to_thread(self._ingest, source_uri, key)

    async def is_policy(self, key: str) -> bool:
        config = await asyncio.to_thread(self._root.child(key).read, "config.json")
        return not model_config.outputs(model_config.read(config))

    async def delete(self, key: str) -> None:
        await asyncio.to_thread(self._delete, key)

    def _ingest(self, source_uri: str, key: str) -> Artifact:
        target = self._root.child(key)
        with self._errors(), self._staging(key) as staged:
            source = self._places.open(source_uri)
            names = source.sizes()  # looked at before a byte is copied
            if "config.json" not in names:
                raise InvalidArgument(f"{source_uri} holds no model: config.json is missing")
            if not any(name.endswith(".safetensors") and "/" not in name for name in names):
                raise InvalidArgument(f"{source_uri} holds no weights: there is no *.safetensors file")
            source.download(staged)
            try:
                policy_id.check_finite(staged)
                weights = policy_id.of_folder(staged)
            except (DataLoss, ValueError) as error:
                reason = str(error).replace(str(staged), source_uri)
                raise InvalidArgument(f"the weights in {source_uri} cannot be read: {reason}") from error
            files = sorted(path for path in staged.rglob("*") if path.is_file())
            artifact = Artifact(
                uri=target.uri,
                sha256=_digest(staged, files),
                policy_id=weights,
                size_bytes=sum(path.stat().st_size for path in files),
                settings_id=policy_id.settings_of_folder(staged),
            )
            if target.local is not None:
                target.local.parent.mkdir(parents=True, exist_ok=True)
                os.rename(staged, target.local)
            else:
                target.upload(staged)
        return artifact

    def _delete(self, key: str) -> None:
        shutil.rmtree(self._staging_folder(key), ignore_errors=True)
        self._root.child(key).delete()

    @contextmanager
    def _staging(self, key: str) -> Iterator[Path]:
        """A folder of this artifact's own; gone at the end."""
        folder = self._staging_folder(key)
        folder.mkdir(mode=0o777 if self._root.local else 0o700, parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _staging_folder(self, key: str) -> Path:
        """On the store's file system where that is local. `delete` finds that of a service that was killed."""
        name = key.replace("/", "-")
        if self._root.local is not None:
            return self._root.local / ".incoming" / name
        return Path(tempfile.gettempdir()) / f"ratchet-artifact-{name}"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with storage.errors(self._root.uri):
                yield
        except ResourceExhausted as error:
            raise ResourceExhausted(
                f"the artifact store {self._root.uri} is full ({error.message}): free some space, or point "
                f"ARTIFACT_URL at a larger place, and make the version again under a new request_id"
            ) from error


def _digest(folder: Path, files: list[Path]) -> str:
    """sha256 (hex) over one line for each file, "sha256 name\\n", by name."""
    lines = hashlib.sha256()
    for path in files:
        with path.open("rb") as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
        lines.update(f"{content} {path.relative_to(folder).as_posix()}\n".encode())
    return lines.hexdigest()
