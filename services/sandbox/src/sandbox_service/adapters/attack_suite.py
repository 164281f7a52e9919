"""The attacks that ship with the service: one file each, see domain/attack.py. A new attack is a new file."""

from functools import cache
from pathlib import Path

from sandbox_service.domain.attack import SUFFIXES, Attack, parse

FOLDER = Path(__file__).parent.parent / "attacks"


@cache
def attacks() -> tuple[Attack, ...]:
    """In the order of their names."""
    paths = sorted(path for path in FOLDER.iterdir() if path.suffix in SUFFIXES)
    return tuple(parse(path.stem, path.read_text(), path.suffix) for path in paths)
