"""What is offered of pytest's fixtures is what the reader of test code lets pass."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sandbox_service
from sandbox_service.cage import comparisons

CAGE = Path(sandbox_service.__file__).parent / "cage"


@pytest.fixture
def fixtures() -> Iterator[Any]:
    sys.path.insert(0, str(CAGE))
    yield importlib.import_module("fixtures")
    sys.path.remove(str(CAGE))
    for path in CAGE.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_all_that_is_offered_may_be_used(fixtures: Any) -> None:
    assert fixtures.OFFERED.keys() | {"request"} == comparisons.FIXTURES
