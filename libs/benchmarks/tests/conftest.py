"""A folder of data of its own for each test, and the published data that lie beside the project."""

from collections.abc import Callable
from pathlib import Path

import pytest

BESIDE = Path(__file__).parents[4] / "shared" / "data"


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def published() -> Callable[[str], Path]:
    def find(name: str) -> Path:
        if not (BESIDE / name).exists():
            pytest.skip(f"{BESIDE / name} isn't there: the benchmarks lie beside the project, not in it")
        return BESIDE / name

    return find
