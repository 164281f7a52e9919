"""scripts/parts.py, by which images and environments know what a part of this project is made of."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = sorted(str(file.parent.relative_to(ROOT)) for file in ROOT.glob("*/*/pyproject.toml"))


@pytest.mark.parametrize("part", PARTS)
def test_a_part_comes_last_and_each_once(part: str) -> None:
    """Also where an extra of a part names the part itself, as the command's does."""
    found = subprocess.check_output([sys.executable, str(ROOT / "scripts/parts.py"), part], text=True).split()
    assert found[-1] == part
    assert len(found) == len(set(found))
    assert set(found) <= set(PARTS)
