"""Python before 3.11, for which this one stands, where an agent's files lie."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet_environments.folders.tools import SAFE_PATH


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    """Its folder, and those of the judge beside it."""
    files = {
        "app/fractions.py": "print('evil')", "app/mine.py": "print('evil')", "own/sitecustomize.py": SAFE_PATH,
        "tests/here.py": "import fractions, beside, sys; print('good')", "tests/beside.py": "",
        "pack/__main__.py": "import fractions, inner; print('good')", "pack/inner.py": "",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.replace("(3, 11)", "(4,)"))
    return tmp_path / "app"


def _run(at: Path, *words: str, given: str = "") -> str:
    environment = {**os.environ, "PYTHONPATH": str(at.parent / "own"), "PYTHONSAFEPATH": ""}
    done = subprocess.run(
        [sys.executable, *words], cwd=at, env=environment, input=given, capture_output=True, text=True, check=False
    )
    return done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("-c", "import fractions; print('good')"),
        ("-c", "import sys; sys.path.insert(0, '/nowhere'); import fractions; print('good')"),
        ("-",),
        ("../tests/here.py",),
        ("../pack",),
    ],
)
def test_no_module_is_taken_from_where_it_runs(agents: Path, words: tuple[str, ...]) -> None:
    assert _run(agents, *words, given="import fractions; print('good')") == "good\n"


def test_nor_is_one_run_from_there(agents: Path) -> None:
    assert not _run(agents, "-m", "mine")
    assert "usage" in _run(agents, "-m", "timeit", "-h").lower()
