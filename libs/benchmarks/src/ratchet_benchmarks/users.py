"""Users' problem sets: the form that ratchet_problems.jsonl describes, as JSON lines, a JSON list or parquet."""

from collections.abc import Iterable
from pathlib import Path

from ratchet_benchmarks import rows
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.names import suggestion
from ratchet_problems import InvalidProblem, Problem, jsonl, tables

_ENDS = (".jsonl", ".json", ".parquet")


def is_path(name: str) -> bool:
    return name.endswith(_ENDS)


def check_tested(problems: Iterable[Problem], name: str) -> None:
    """Raises InvalidProblem for one without tests."""
    for problem in problems:
        if not problem.tests:
            reason = "has none, and no right answer: only a reward of your own can judge it (docs/rewards.md)"
            raise InvalidProblem(f"{Path(name).name}: {problem.id}", "tests", reason)


def stamp(name: str) -> tuple[object, ...]:
    """Changes where the file does. Raises InvalidProblem for a file that is not there."""
    try:
        found = Path(name).stat()
    except OSError as error:
        near = suggestion(Path(name).name, (one.name for one in Path(name).parent.glob("*.*") if is_path(one.name)))
        raise InvalidProblem(Path(name).name, "file", f"{error.strerror or 'cannot be read'}{near}") from error
    return found.st_mtime_ns, found.st_size, found.st_ino


def read(path: Path, limit: int | None = None) -> tuple[Problem, ...]:
    """All problems, or of parquet the first `limit`. Raises InvalidProblem, or InvalidArgument for a file that is no
    table."""
    if path.suffix == ".jsonl":
        return jsonl.read(path)
    if path.suffix == ".parquet":
        return tables.read(path, path.name, limit)
    try:
        table = rows.parse(path.read_bytes(), path.name)
    except OSError as error:
        raise InvalidArgument(f"{path.name} cannot be read: {error.strerror}") from error
    records = [{name: value for name, value in row.items() if value is not None} for row in table]
    numbered = ((f"{path.name} row {number}", number, record) for number, record in enumerate(records, start=1))
    return tuple(jsonl.problems(numbered, lambda record, where: record, path.name))
