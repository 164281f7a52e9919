"""Plugins of this service's Python environment."""

import asyncio
import re
from collections.abc import Sequence

from trainer_service.domain.plugins import Installed
from trainer_service.job import plugins


class InstalledPlugins:
    def __init__(self, allowed: Sequence[str]) -> None:
        """`allowed`: names of packages, or of plug-ins."""
        self._allowed = {_normal(name) for name in allowed}

    async def installed(self) -> Sequence[Installed]:
        found = await asyncio.to_thread(plugins.installed)
        return [Installed(one, not self._allowed.isdisjoint(map(_normal, (one.package, one.name)))) for one in found]


def _normal(name: str) -> str:
    """Python packages are the same however their names are spelled (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
