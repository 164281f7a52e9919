"""The attacks that ship with the service: one file each, see domain/audit.py. A new attack is a new file."""

from functools import cache
from pathlib import Path

from sandbox_service.domain.audit import Attack, parse

FOLDER = Path(__file__).parent.parent / "attacks"


@cache
def attacks() -> tuple[Attack, ...]:
    """In the order of their names."""
    return tuple(parse(path.stem, path.read_text()) for path in sorted(FOLDER.glob("*.py")))
