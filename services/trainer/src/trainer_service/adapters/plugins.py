"""Plugins of this service's Python environment."""

import asyncio
import re
from collections.abc import Sequence

from ratchet_kit.errors import InvalidArgument
from trainer_service.domain.spec import recipes
from trainer_service.domain.spec.plugins import Installed, PluginKind
from trainer_service.domain.spec.recipes import Recipe
from trainer_service.job.plugins import entry_points
from trainer_service.job.plugins.process import PluginProcess


class InstalledPlugins:
    def __init__(self, allowed: Sequence[str]) -> None:
        """`allowed`: names of packages, or of plug-ins."""
        self._allowed = {_normal(name) for name in allowed}

    async def installed(self) -> Sequence[Installed]:
        return await asyncio.to_thread(self._installed)

    def _installed(self) -> list[Installed]:
        found = []
        for one in entry_points.installed():
            allowed = not self._allowed.isdisjoint(map(_normal, (one.package, one.name)))
            found.append(Installed(one, allowed, entry_points.fault(one) if allowed else ""))
        return found

    async def recipe(self, name: str) -> Recipe:
        return await asyncio.to_thread(_recipe, name)

    async def check_environment(self, name: str) -> None:
        with PluginProcess(PluginKind.ENVIRONMENT, name) as call:
            await asyncio.to_thread(call.start)


def _recipe(name: str) -> Recipe:
    with PluginProcess(PluginKind.ALGORITHM, name) as call:
        said = call()
    try:
        return recipes.read(said)
    except InvalidArgument as error:
        raise InvalidArgument(f"the algorithm {name} is invalid: {error.message}") from error


def _normal(name: str) -> str:
    """Python packages are the same however their names are spelled (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
