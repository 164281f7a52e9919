"""Builds the Python environments that programs in the sandbox may import from, where the platform's sources are."""

import subprocess
import sys

from ratchet_local.errors import PlatformError
from ratchet_local.services import environments_folder


def build(name: str) -> None:
    """Builds one that comes with the project; what the build says goes to stderr. Raises PlatformError."""
    sources = environments_folder().parent
    script, lock = sources / "scripts/setup.sh", sources / f"services/sandbox/runtimes/{name}/requirements.lock"
    if not (script.is_file() and lock.is_file()):
        raise PlatformError(f"The runtime {name} cannot be built here: there is no {lock}.")
    command = [str(script), f"sandbox-{name}"]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        raise PlatformError(f"The runtime {name} could not be built (above). Try again with: {' '.join(command)}")
