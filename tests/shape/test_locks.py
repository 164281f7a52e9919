"""The lock file of each light service holds all that its image needs, on the oldest Python that it may have."""

import re
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


@pytest.mark.parametrize("service", ["eval", "gateway", "registry", "sandbox"])
def test_a_lock_holds_all_that_its_service_needs(service: str) -> None:
    lock = (ROOT / "services" / service / "requirements.lock").read_text()
    locked = {canonicalize_name(line.partition("==")[0]) for line in lock.split()}
    seen: set[tuple[str, frozenset[str]]] = set()
    needs(f"ratchet-{service}-service", frozenset(), seen)
    missing = {name for name, _ in seen if not re.match("ratchet-", name)} - locked
    assert not missing, f"run `make locks`: {service} lacks {sorted(missing)}"
