"""The code that trains, as the lineage of a version records it."""

import hashlib
import os
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

SERVICE = "ratchet-trainer-service"
PACKAGES = (
    "ratchet_environments",
    "ratchet_episodes",
    "ratchet_kit",
    "ratchet_policies",
    "ratchet_problems",
    "ratchet_quality",
    "ratchet_rewards",
    "ratchet_sessions",
    "trainer_service",
)
"""The service and its libraries, which its jobs use, too."""


def code_version() -> str:
    """The service's version, the commit if known, and a digest of the sources: another digest is other code."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for file in sorted(Path(folder).rglob("*.py")):
                digest.update(f"{package}/{file.relative_to(folder)}\0".encode() + file.read_bytes() + b"\0")
    return " ".join((SERVICE, version(SERVICE), *_commit(), digest.hexdigest()[:12]))


def _commit() -> tuple[str, ...]:
    """By the image (RATCHET_COMMIT), or by git in a checkout, with a + where files were changed."""
    if built := os.environ.get("RATCHET_COMMIT"):
        return (built,)
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)  # not that of a project around it
        return tuple(_git("describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+").split())
    except (OSError, subprocess.SubprocessError):
        return ()


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True, timeout=30).stdout
