"""What the command says when it is used wrongly, or when nothing answers: a sentence and an exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet_client.cli.output import sparkline
from ratchet_client.cli.references import model_ref
from ratchet_client.cli.training import hyperparameters
from ratchet_client.errors import CommandError


def ratchet(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RATCHET_")}
    return subprocess.run(
        [sys.executable, "-m", "ratchet_client.cli.main", *arguments],
        env=environment | {"RATCHET_HOME": str(home), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("train", "--model", "starter"), 4, "ratchet up"),
        (("train", "--model", "starter", "--algorithm", "magic"), 2, "choose one of"),
        (("train", "--model", "starter", "--set", "learning_rat=1"), 2, "Did you mean learning_rate?"),
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
def test_wrong_use_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    result = ratchet(tmp_path, *arguments)
    assert result.returncode == code, result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_down_without_a_platform_is_no_error(tmp_path: Path) -> None:
    result = ratchet(tmp_path, "down")
    assert result.returncode == 0
    assert "No platform runs" in result.stdout


@pytest.mark.parametrize(
    "command", ["up", "train", "evaluate", "gate", "deploy", "demo", "status", "logs", "runs list", "sandbox audit"]
)
def test_every_command_has_help_and_defaults_that_it_accepts(tmp_path: Path, command: str) -> None:
    assert ratchet(tmp_path, *command.split(), "--help").returncode == 0


def test_the_demo_starts_with_its_defaults(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = ratchet(tmp_path / "file", "demo")
    assert result.returncode == 1, result.stderr
    assert "RATCHET_HOME" in result.stderr or "make setup" in result.stderr


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("starter", "alias", "starter:champion"),
        ("starter:candidate", "alias", "starter:candidate"),
        ("starter@2", "version", "starter@2"),
        ("s3://bucket/model", "path", "s3://bucket/model"),
    ],
)
def test_names_of_models(text: str, kind: str, value: str) -> None:
    ref = model_ref(text)
    assert ref.WhichOneof("ref") == kind
    assert getattr(ref, kind) == value


def test_hyperparameters_keep_their_kinds() -> None:
    parsed = hyperparameters(["learning_rate=1e-4", "group_size=8"])
    assert (parsed.learning_rate, parsed.group_size) == (1e-4, 8)
    assert not parsed.HasField("batch_size")
    with pytest.raises(CommandError, match="not a number"):
        hyperparameters(["group_size=8.5"])


def test_a_sparkline_spans_its_range() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
