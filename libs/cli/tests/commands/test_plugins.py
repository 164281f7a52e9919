"""`ratchet new sampler|loss|advantage|algorithm|dataset|environment`, `new reward --installed`: as packages."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ratchet_local.services import environments_folder

NO_TESTS = 5  # what pytest ends with where all is skipped: the light environment has no torch, and no math-verify


@pytest.mark.parametrize(
    ("options", "entries", "used", "code"),
    [
        (["sampler"], ["sampler"], "--set plugins=sampler:mine", 0),
        (["loss"], ["loss"], "--set plugins=loss:mine", NO_TESTS),
        (["advantage"], ["advantage"], "--set plugins=advantage:mine", NO_TESTS),
        (["algorithm"], ["algorithm", "loss", "advantage"], "--set plugins=algorithm:mine", NO_TESTS),
        (["dataset"], ["dataset"], "--problems plugin:mine/train", 0),
        (["environment"], ["environment"], "--set environment=plugin:mine", 0),
        (["reward", "--installed"], ["reward"], "--reward plugin:mine", 0),
        (["reward", "--installed", "--task", "math"], ["reward"], "--reward plugin:mine", NO_TESTS),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_new_plugin_is_a_package_whose_test_passes(
    ratchet: Any, tmp_path: Path, options: list[str], entries: list[str], used: str, code: int
) -> None:
    done = ratchet("new", options[0], "mine", *options[1:], "--folder", str(tmp_path))
    assert done.returncode == 0
    assert used in done.stdout.replace("\n", " ")
    project = tomllib.loads((tmp_path / "mine" / "pyproject.toml").read_text())["project"]
    functions = {f"ratchet.{kind}": {"mine": f"mine:{kind if len(entries) > 1 else 'mine'}"} for kind in entries}
    assert project["entry-points"] == functions | {f"ratchet.{entries[0]}": {"mine": "mine:mine"}}
    assert project["dependencies"] == (["math-verify[antlr4_9_3]>=0.8"] if "math" in options else [])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    environment = {"PATH": os.environ["PATH"]}
    tested = subprocess.run(command, cwd=tmp_path / "mine", env=environment, capture_output=True, text=True)
    assert tested.returncode == code, tested.stdout


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
    python = environments_folder() / "trainer" / "bin" / "python"
    assert f"/tools/bin/uv pip install --python {python} pytest ./mine\n" in done.stdout
    assert f"{python} -m pytest ./mine\n" in done.stdout
    monkeypatch.chdir(environments_folder().parent)
    done = ratchet("new", "loss", "other", "--folder", str(tmp_path))
    assert ": .venvs/tools/bin/uv pip install --python .venvs/trainer/bin/python pytest /" in done.stdout
