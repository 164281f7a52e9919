"""Plug-ins of this Python environment: entry points of the groups `ratchet.<kind>`. Those of a run are loaded here."""

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from ratchet_kit.errors import DataLoss, InvalidArgument
from trainer_service.domain.spec.plugins import Plugin, PluginKind, named
from trainer_service.job.plugins import signatures


def installed() -> list[Plugin]:
    """All there are, allowed or not; nothing of them is imported. One whose code is not there is left out."""
    importlib.invalidate_caches()
    found = [_plugin(kind, point) for kind in PluginKind for point in entry_points(group=f"ratchet.{kind}")]
    return [plugin for plugin in found if plugin.digest]


def fault(plugin: Plugin) -> str:
    """Why a run can't have it, as far as can be seen without importing it; empty where nothing is seen."""
    kind = PluginKind(plugin.kind)
    points = _points(kind, plugin.name)
    if len(points) > 1:
        packages = " and ".join(sorted(point.dist.name if point.dist else point.value for point in points))
        return f"several are called {plugin.name}, of the packages {packages}: uninstall, or rename, one of them"
    return signatures.fault(kind, points[0]) if points else ""


def load(plugins: Sequence[Plugin], kind: PluginKind) -> Callable[..., Any] | None:
    """The run's plug-in of this kind, None where it has none.

    Raises DataLoss when it is not the code that was found at Create, InvalidArgument when it cannot be imported.
    """
    wanted = named(plugins, kind)
    return function_of(kind, wanted.name, wanted.digest) if wanted else None


def function_of(kind: str, name: str, digest: str = "") -> Callable[..., Any]:
    """Raises as `load`. `digest`: of its code; empty: it may be any."""
    points = [point for point in _points(kind, name) if not digest or _plugin(kind, point).digest == digest]
    if not points:
        raise DataLoss(f"the {kind} {name} is not here as it was when the run was created: create it again")
    try:
        loaded = points[0].load()
    except Exception as error:  # whatever the code of others raises
        raise InvalidArgument(f"the {kind} {name} cannot be imported: {error}") from error
    if not callable(loaded):
        raise InvalidArgument(f"the {kind} {name} must be a function, as in its template (docs/plugins.md)")
    function: Callable[..., Any] = loaded
    with contextlib.suppress(TypeError, ValueError):  # of what has no signature: C's, say
        signatures.check(PluginKind(kind), name, inspect.signature(function))
    return function


def _points(kind: str, name: str) -> list[EntryPoint]:
    return [point for point in entry_points(group=f"ratchet.{kind}") if point.name == name]


def _plugin(kind: str, point: EntryPoint) -> Plugin:
    package, version = (point.dist.name, point.dist.version) if point.dist else ("", "")
    return Plugin(str(kind), point.name, package, version, _digest(point.module.partition(".")[0]))


def _digest(module: str) -> str:
    """Over the names and contents of all files of the top-level module or package; empty where there is none."""
    spec = importlib.util.find_spec(module)
    if spec is None:
        return ""
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    files = [
        (str(file.relative_to(folder)), file)
        for folder in folders
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    ]
    if not folders and spec.origin:
        files = [(Path(spec.origin).name, Path(spec.origin))]
    lines = [f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n" for name, file in sorted(files)]
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}" if lines else ""
