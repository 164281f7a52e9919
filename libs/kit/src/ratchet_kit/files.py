"""Files that services read and write for themselves: the platform's folder, the ends of logs, and secrets."""

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ratchet_kit.text import clip

_LINE_BYTES = 400  # what a line of a log is taken to have
_LAST_WORDS_BYTES = 500


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """The platform's folder on this machine: RATCHET_HOME, or ~/.ratchet."""
    return Path(environ.get("RATCHET_HOME") or Path.home() / ".ratchet").absolute()


def tail(path: Path, lines: int, *, start: int = 0) -> list[str]:
    """The last `lines` lines of a text file, from the byte `start` on (all of one that was cut since, see
    `ratchet_kit.log_files`); none when there is no such file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start if start <= size else 0, size - _LINE_BYTES * max(lines, 40)))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []


def last_words(path: Path) -> str:
    """The last line with text in it, at most 500 bytes of it: for a sentence about a process's end. Empty when there
    is none."""
    return last_line("\n".join(tail(path, 40)))


def last_line(text: str) -> str:
    """The same of a text, such as what a process wrote to stderr."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return clip(lines[-1], _LAST_WORDS_BYTES) if lines else ""


DRAFT = ".part"
"""How the name ends of a file that is being written."""


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """A path beside it to write to, which then becomes the file: all of it or nothing. Nobody else has the path,
    whatever machine or container it is in. Makes the folder. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".new-{secrets.token_hex(8)}{DRAFT}")
    try:
        yield draft
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def secret(path: Path, make: Callable[[], str]) -> str:
    """The secret that `path` holds. When there is none yet, `make()` is written there, readable by its owner only.

    Of several processes that make it at once, all get the same. Raises OSError.
    """
    if path.exists():
        return path.read_text().strip()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(make())
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
    finally:
        draft.unlink()
    return path.read_text().strip()


def json_or_file(value: Any, rule: str) -> Any:
    """The value of a setting that is JSON, or the path of a file of JSON; one that is no text stays as it is. Raises
    ValueError, which begins with the rule."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value if value.lstrip().startswith("{") else Path(value).expanduser().read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{rule}: {error}") from error
