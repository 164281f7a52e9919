"""What the command says when it is used wrongly, or when nothing answers: a sentence and an exit code."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ratchet_cli import main


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("train", "--model", "starter"), 4, "ratchet up"),
        (("train", "--model", "starter", "--algorithm", "magic"), 2, "choose one of"),
        (("train", "--model", "starter", "--set", "learning_rat=1"), 2, "Did you mean learning_rate?"),
        (("train", "--model", "starter", "--set", "gamma=1", "--set", "gamma=0.9"), 2, "say it once"),
        (("train", "--model", "./nowhere"), 2, "There is no folder"),
        (("train", "--model", "Not A Name"), 2, "names no model"),
        (("train",), 2, "--model"),
        (("deploy", "--model", "starter@2", "--strategy", "hope"), 2, "gradual"),
        (("status",), 1, "No platform runs"),
        (("logs", "nothing"), 2, "No log"),
        (("sandbox", "audit"), 1, "No platform runs"),
        (("sandbox", "audit", "--target", "127.0.0.1:1"), 4, "No sandbox answers at 127.0.0.1:1"),
        (("frobnicate",), 2, "No such command"),
    ],
)
def test_wrong_use_is_one_sentence(ratchet: Any, arguments: tuple[str, ...], code: int, words: str) -> None:
    result = ratchet(*arguments)
    assert result.returncode == code, result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count(words) == 1


def test_down_without_a_platform_is_no_error(ratchet: Any) -> None:
    result = ratchet("down")
    assert result.returncode == 0
    assert "No platform runs" in result.stdout


@pytest.mark.parametrize(
    "command",
    ["up", "improve", "train", "evaluate", "gate", "deploy", "demo", "status", "logs", "runs list", "sandbox audit"],
)
def test_every_command_has_help_and_defaults_that_it_accepts(ratchet: Any, command: str) -> None:
    assert ratchet(*command.split(), "--help").returncode == 0


def test_the_demo_starts_with_its_defaults(ratchet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RATCHET_HOME", str(tmp_path / "file"))
    result = ratchet("demo")
    assert result.returncode == 1, result.stderr
    assert "RATCHET_HOME" in result.stderr or "make setup" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "ratchet_cli.main", "--help"]
    assert "Post-train code models" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_fault_of_the_command_is_one_line_and_a_trace_when_asked_for(
    ratchet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise KeyError("surprise")

    monkeypatch.setattr(main, "app", broken)
    result = ratchet("status")
    assert (result.returncode, len(result.stderr.splitlines())) == (1, 1)
    assert "KeyError" in result.stderr
    monkeypatch.setenv("RATCHET_TRACE", "1")
    with pytest.raises(KeyError):
        ratchet("status")
