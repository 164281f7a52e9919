"""The Python environments of this node: the standard library, and a virtual environment for every other runtime."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from sandbox_service.domain.capabilities import Runtime

_PREFIX = "sandbox-"
_UNFINISHED = ".unfinished"
"""A file in an environment that is being built: scripts/setup.sh and `ratchet sandbox runtime add`."""
# Loaded once in the keeper, where a runtime has them: each takes 0.1 to 2 s to import.
HEAVY = ("numpy", "pandas", "scipy", "sklearn", "matplotlib.pyplot", "math_verify")


@dataclass(frozen=True, slots=True)
class Environment:
    """`packages`: its site-packages, empty for the standard library alone. `heavy`: modules to load before the first
    program."""

    runtime: Runtime
    python: str
    packages: str = ""
    heavy: tuple[str, ...] = ()


def standard(python: str) -> Environment:
    return Environment(Runtime("python", "python", ""), os.path.realpath(python))


def find(folder: Path | None) -> list[Environment]:
    """Every virtual environment in `folder`; without one, those named sandbox-* beside the one that this runs in."""
    if folder is None and sys.prefix != sys.base_prefix:
        paths = sorted(Path(sys.prefix).parent.glob(f"{_PREFIX}*"))
    elif folder is not None and folder.is_dir():
        paths = sorted(folder.iterdir())
    else:
        paths = []
    return [environment for environment in map(_read, paths) if environment]


def _read(path: Path) -> Environment | None:
    """None for what isn't a whole virtual environment of this Python version."""
    python = path / "bin" / "python"
    packages = path / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    if not (python.exists() and packages.is_dir()) or (path / _UNFINISHED).exists():
        return None
    names = os.listdir(packages)
    modules = frozenset(_modules(names))
    versions = dict(sorted(_distribution(name) for name in names if name.endswith(".dist-info")))
    runtime = Runtime(path.name.removeprefix(_PREFIX), "python", "", versions, modules)
    heavy = tuple(name for name in HEAVY if name.partition(".")[0] in modules)
    return Environment(runtime, os.path.realpath(python), str(packages), heavy)


def _modules(names: list[str]) -> list[str]:
    """What `import` finds there: packages, files, extensions."""
    stems = [name.partition(".")[0] for name in names if not name.endswith((".dist-info", ".libs", ".pth", ".data"))]
    return [stem for stem in stems if stem.isidentifier() and not stem.startswith("__")]


def _distribution(name: str) -> tuple[str, str]:
    project, _, version = name.removesuffix(".dist-info").partition("-")
    return project.replace("_", "-").lower(), version
