"""Which folders are Python environments that programs may import from."""

import sys
from pathlib import Path

from sandbox_service.adapters.languages import environments


def test_one_that_is_being_built_is_not_offered(tmp_path: Path) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for name in ("sandbox-whole", "sandbox-half", "sandbox-empty"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python").symlink_to(sys.executable)
    for name in ("sandbox-whole", "sandbox-half"):
        (tmp_path / name / "lib" / version / "site-packages" / "greeting-1.2.dist-info").mkdir(parents=True)
    (tmp_path / "sandbox-half" / ".unfinished").touch()
    (found,) = environments.find(tmp_path)
    assert (found.runtime.name, found.runtime.packages) == ("whole", {"greeting": "1.2"})
