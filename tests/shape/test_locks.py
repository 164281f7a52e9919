"""The lock file of each light service holds all that its image needs, on the oldest Python that it may have."""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
# Debian's Python is 3.11.2, and some packages need others below 3.11.3: async-timeout.
OLDEST: dict[str, str] = {
    **{name: str(value) for name, value in default_environment().items()},
    "python_version": "3.11",
    "python_full_version": "3.11.0",
}


def needs(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> None:
    """Adds to `seen` the package with these extras, and all that they need."""
    if (name, extras) in seen:
        return
    seen.add((name, extras))
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return  # not needed by the Python of these tests
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker is None or any(marker.evaluate(OLDEST | {"extra": extra}) for extra in ("", *extras)):
            needs(canonicalize_name(requirement.name), frozenset(requirement.extras), seen)


def locked_by(service: str) -> set[str]:
    lock = (ROOT / "services" / service / "requirements.lock").read_text()
    return {canonicalize_name(line.partition("==")[0]) for line in lock.split()}


LIGHT = pytest.mark.parametrize("service", ["eval", "gateway", "registry", "sandbox"])


@LIGHT
def test_a_lock_holds_all_that_its_service_needs(service: str) -> None:
    locked = locked_by(service)
    seen: set[tuple[str, frozenset[str]]] = set()
    needs(f"ratchet-{service}-service", frozenset(), seen)
    missing = {name for name, _ in seen if not re.match("ratchet-", name)} - locked
    assert not missing, f"run `make locks`: {service} lacks {sorted(missing)}"


# Imports a service where what is not in its lock is not there.
IMPORTS = """
import importlib.abc, json, sys

absent = set(json.loads(sys.argv[2]))

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
__import__(sys.argv[1])
"""


@LIGHT
def test_a_service_starts_with_what_its_lock_holds(service: str) -> None:
    """An extra that its pyproject.toml does not ask for is there in the environment of these tests all the same."""
    starts_with(locked_by(service), f"{service}_service.main")


def test_the_command_starts_with_what_its_wheels_ask_for() -> None:
    seen: set[tuple[str, frozenset[str]]] = set()
    needs("ratchet-cli", frozenset(), seen)
    starts_with({name for name, _ in seen}, "ratchet_cli.main")


def starts_with(there: set[str], module: str) -> None:
    absent = [
        found
        for found, names in metadata.packages_distributions().items()
        if not any(name in there or name.startswith("ratchet-") for name in map(canonicalize_name, names))
    ]
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, module, json.dumps(absent)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr[-1000:]
