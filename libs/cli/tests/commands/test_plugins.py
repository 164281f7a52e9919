"""`ratchet new sampler|loss|advantage`: packages from templates."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("kind", ["sampler", "loss", "advantage"])
def test_a_new_plugin_is_a_package_whose_test_passes(ratchet: Any, tmp_path: Path, kind: str) -> None:
    done = ratchet("new", kind, "mine", "--folder", str(tmp_path))
    assert done.returncode == 0
    assert f"--plugin {kind}=mine" in done.stdout
    project = tomllib.loads((tmp_path / "mine" / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {f"ratchet.{kind}": {"mine": "mine:mine"}}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    environment = {"PATH": os.environ["PATH"]}
    tested = subprocess.run(command, cwd=tmp_path / "mine", env=environment, capture_output=True, text=True)
    assert tested.returncode == (0 if kind == "sampler" else 5), tested.stdout  # 5: the light environment has no torch


def test_it_is_not_written_twice_and_has_a_name_of_its_own(ratchet: Any, tmp_path: Path) -> None:
    assert ratchet("new", "loss", "mine", "--folder", str(tmp_path)).returncode == 0
    again = ratchet("new", "sampler", "mine", "--folder", str(tmp_path))
    assert (again.returncode, "is there already" in again.stderr) == (1, True)
    assert ratchet("new", "loss", "not-a-name", "--folder", str(tmp_path)).returncode == 2
    for taken in ("random", "torch", "class"):
        assert ratchet("new", "loss", taken, "--folder", str(tmp_path)).returncode == 2


def test_what_it_says_to_install_is_the_folder_and_no_name_of_an_index(
    ratchet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = ratchet("new", "loss", "mine")
    assert "--python .venvs/trainer ./mine" in done.stdout.replace("\n", " ")
