"""The code that trains, as the lineage of a version records it."""

import hashlib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

SERVICE = "ratchet-trainer-service"
PACKAGES = (
    "ratchet_environments",
    "ratchet_kit",
    "ratchet_policies",
    "ratchet_problems",
    "ratchet_quality",
    "ratchet_rewards",
    "trainer_service",
)
"""The service and its libraries, which its jobs use, too."""


def code_version() -> str:
    """The service's version and a digest of its sources: another digest is other code."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for file in sorted(Path(folder).rglob("*.py")):
                digest.update(f"{package}/{file.relative_to(folder)}\0".encode() + file.read_bytes() + b"\0")
    return f"{SERVICE} {version(SERVICE)} {digest.hexdigest()[:12]}"
