import subprocess
import sys
from pathlib import Path

import pytest

from trainer_service.adapters import code_version

ROOT = Path(__file__).parents[4]


def test_the_packages_are_those_that_the_service_is_made_of() -> None:
    parts = subprocess.check_output(
        [sys.executable, str(ROOT / "scripts/parts.py"), "services/trainer"], text=True
    ).split()
    packages = {name for part in parts for name in (path.name for path in (ROOT / part / "src").iterdir())}
    own = {name for name in packages if name.startswith(("ratchet_", "trainer_")) and "." not in name}
    assert set(code_version.PACKAGES) == own - {"ratchet_protos"}


def test_other_code_has_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(code_version, "PACKAGES", ("of_this_test",))
    file = tmp_path / "of_this_test" / "__init__.py"
    file.parent.mkdir()
    found = []
    for source in ("x = 1\n", "x = 2\n", "x = 1\n"):
        file.write_text(source)
        found.append(code_version.code_version())
    assert found[0] == found[2] != found[1]
    assert found[0].startswith("ratchet-trainer-service 0.")


def test_the_commit_is_said_by_the_image_or_by_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_version, "PACKAGES", ())
    monkeypatch.delenv("RATCHET_COMMIT", raising=False)
    git = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    assert git in code_version.code_version()
    monkeypatch.setenv("RATCHET_COMMIT", "of-the-image")
    assert code_version.code_version().split()[2] == "of-the-image"
    monkeypatch.delenv("RATCHET_COMMIT")
    monkeypatch.setenv("PATH", "")
    assert len(code_version.code_version().split()) == 3
