"""`ratchet sandbox runtime add`: builds a whole environment, or nothing."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ratchet_cli.main import app
from ratchet_cli.terminal.errors import CommandError


def add(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["sandbox", "runtime", "add", *arguments], catch_exceptions=False)
    return result.output


@pytest.fixture
def wheel_lock(tmp_path: Path) -> Path:
    """A lock file of one package that lies beside it: no index is needed."""
    wheel = tmp_path / "greeting-1.2.3-py3-none-any.whl"
    about = "greeting-1.2.3.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("greeting.py", "WORD = 'hello'\n")
        file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.2.3\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", f"greeting.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    lock = tmp_path / "requirements.lock"
    lock.write_text(f"greeting @ file://{wheel}\n")
    return lock


def test_a_runtime_is_built_from_a_lock_file(tmp_path: Path, wheel_lock: Path) -> None:
    told = add("own", str(wheel_lock), "--folder", str(tmp_path / "envs"))
    assert "Runtime own is built" in told
    python = tmp_path / "envs" / "sandbox-own" / "bin" / "python"
    said = subprocess.run([python, "-c", "import greeting; print(greeting.WORD)"], capture_output=True, text=True)
    assert said.stdout == "hello\n"
    packages = next((tmp_path / "envs" / "sandbox-own" / "lib").glob("python*/site-packages"))
    assert list((packages / "__pycache__").glob(f"greeting.{sys.implementation.cache_tag}.pyc"))
    with pytest.raises(CommandError, match="is there already"):
        add("own", str(wheel_lock), "--folder", str(tmp_path / "envs"))


def test_what_cannot_be_installed_leaves_nothing(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text(f"nothing @ file://{tmp_path / 'nowhere'}\n")
    with pytest.raises(CommandError, match="nothing was built"):
        add("own", str(lock), "--folder", str(tmp_path / "envs"))
    assert list((tmp_path / "envs").iterdir()) == []


@pytest.mark.parametrize("name", ["python", "Numpy", "a/b", "..", ""])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    lock = tmp_path / "requirements.lock"
    lock.touch()
    with pytest.raises(CommandError, match="can't name a runtime"):
        add(name, str(lock), "--folder", str(tmp_path))


def test_a_lock_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="There is no lock file"):
        add("own", str(tmp_path / "none"), "--folder", str(tmp_path))
