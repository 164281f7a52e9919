"""The registry with an artifact store that never ends a copy: `python slow_registry.py`. It is there to be killed."""

import asyncio
from pathlib import Path

from ratchet_kit import server
from ratchet_kit.allowed_sources import Places
from registry_service.adapters.artifacts import FsspecArtifactStore
from registry_service.domain.version import Artifact
from registry_service.main import SERVICE, provision
from registry_service.settings import Settings


class Endless(FsspecArtifactStore):
    def __init__(self, root: str) -> None:
        super().__init__(root, Places(["/"]))
        self._folder = Path(root)

    async def ingest(self, source_uri: str, key: str) -> Artifact:
        (self._folder / key).mkdir(parents=True)
        (self._folder / key / "half").touch()
        await asyncio.Event().wait()
        raise AssertionError


async def run(settings: Settings) -> None:
    async with provision(settings, artifacts=Endless(f"{settings.artifact_url}/models")) as service:
        await server.serve(settings, SERVICE, service.add_to, background=service.background)


if __name__ == "__main__":
    server.launch(SERVICE, Settings(), run)
