"""Marks of an index by which git would say of a changed file that it is as it was."""

import os
import subprocess
from pathlib import Path

import pytest

from ratchet_environments.folders.git_index import without_marks
from ratchet_kit.errors import InvalidArgument


def _git(at: Path, *words: str) -> str:
    home = {"HOME": str(at), "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", "-C", at, *words], check=True, capture_output=True, text=True, env=os.environ | home
    ).stdout


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_marked_file_is_seen_to_have_changed(tmp_path: Path, version: int) -> None:
    names = ["a", "a.txt", "b", "deep/" + "n" * 100, "deep/x", "é", "z1234567"]
    _git(tmp_path, "init", "-q")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one")
    _git(tmp_path, "add", *names)
    _git(tmp_path, "update-index", "--index-version", str(version))
    index = tmp_path / ".git/index"
    plain = index.read_bytes()
    assert without_marks(plain) == plain
    _git(tmp_path, "update-index", "--assume-unchanged", "a", "deep/x")
    _git(tmp_path, "update-index", "--skip-worktree", "b", "deep/x", "z1234567")
    for name in names:
        (tmp_path / name).write_text("another")
    assert len(_git(tmp_path, "diff", "--name-only").splitlines()) == 3
    index.write_bytes(without_marks(index.read_bytes()))
    assert len(_git(tmp_path, "diff", "--name-only").splitlines()) == len(names)
    assert {line[0] for line in _git(tmp_path, "ls-files", "-v").splitlines()} == {"H"}


@pytest.mark.parametrize("content", [b"", b"DIRC", b"DIRC\0\0\0\x02\0\0\0\x01", b"DIRC\0\0\0\x09\0\0\0\0" + bytes(20)])
def test_no_index(content: bytes) -> None:
    with pytest.raises(InvalidArgument):
        without_marks(content)
