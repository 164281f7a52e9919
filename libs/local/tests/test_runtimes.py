"""Runtimes of the sandbox are built by the project's own script."""

from pathlib import Path

import pytest

from ratchet_local import runtimes
from ratchet_local.errors import PlatformError


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a project whose set-up notes what it is asked for, and cannot build `broken`."""
    monkeypatch.setattr(runtimes, "environments_folder", lambda: tmp_path / ".venvs")
    script = tmp_path / "scripts" / "setup.sh"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\necho building $*\necho $* >>{tmp_path}/asked\n[ $1 != sandbox-broken ]\n")
    script.chmod(0o755)
    for name in ("many", "broken"):
        (tmp_path / "services/sandbox/runtimes" / name).mkdir(parents=True)
        (tmp_path / "services/sandbox/runtimes" / name / "requirements.lock").touch()
    return tmp_path


def test_one_that_comes_with_the_project_is_built_and_what_that_says_is_no_result(
    sources: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runtimes.build("many")
    assert (sources / "asked").read_text() == "sandbox-many\n"
    assert capfd.readouterr() == ("", "building sandbox-many\n")


def test_what_cannot_be_built_is_said(sources: Path) -> None:
    with pytest.raises(PlatformError, match=r"could not be built.*setup.sh sandbox-broken"):
        runtimes.build("broken")
    with pytest.raises(PlatformError, match="cannot be built here"):
        runtimes.build("unknown")
