"""The table of samples as parquet, a file for each step: docs/samples.md has its columns."""

import io
import re
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import IO, Any

from ratchet_environments.failures import FailedTest
from ratchet_kit.errors import DataLoss
from ratchet_problems import tables
from trainer_service.domain.run.sample import Sample, Span, Wanted

_NAME = re.compile(r"step-(\d{6,9})\.parquet")
_LOOKED_AT = ["problem_id", "verdict", "reward", "place", "index"]


def name_of(step: int) -> str:
    return f"step-{step:06}.parquet"


def step_of(name: str) -> int | None:
    """None for the name of another file."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def write(samples: Sequence[Sample]) -> bytes:
    arrow, parquet = tables.arrow()
    rows = [asdict(one) | {"components": list(one.components.items())} for one in samples]
    file = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(rows, _schema(arrow)), file, compression="zstd")
    return file.getvalue()


def read(file: IO[bytes], wanted: Wanted, *, records: bool = False) -> list[Sample]:
    """Reads the texts only where a sample is wanted, and the records of episodes only with `records`. Raises DataLoss
    for a file that is not such a table."""
    arrow, parquet = tables.arrow()
    try:
        kept = parquet.ParquetFile(file)
        looked_at = kept.read(columns=_LOOKED_AT)
        of_each = zip(*(looked_at[name].to_pylist() for name in _LOOKED_AT), strict=True)
        rows = [place for place, one in enumerate(of_each) if wanted.takes(*one)]
        if not rows:
            return []
        known = {*kept.schema_arrow.names} - (set() if records else {"record"})
        columns = [one.name for one in fields(Sample) if one.name in known]
        return [_sample(row) for row in kept.read(columns=columns).take(arrow.array(rows)).to_pylist()]
    except (arrow.ArrowException, KeyError, TypeError) as error:
        raise DataLoss(f"a table of samples cannot be read: {error}") from error


def _schema(arrow: Any) -> Any:
    test = arrow.struct([(one.name, arrow.string()) for one in fields(FailedTest)])
    span = arrow.struct([("policy_id", arrow.string()), ("step", arrow.int64()), ("tokens", arrow.int64())])
    types = {
        "step": arrow.int64(),
        "place": arrow.int64(),
        "index": arrow.int64(),
        "problem_id": arrow.string(),
        "prompt": arrow.string(),
        "completion": arrow.string(),
        "verdict": arrow.string(),
        "tests_passed": arrow.int64(),
        "tests_total": arrow.int64(),
        "detail": arrow.string(),
        "failed_tests": arrow.list_(test),
        "held_out_failed": arrow.int64(),
        "stderr": arrow.string(),
        "reward": arrow.float64(),
        "components": arrow.map_(arrow.string(), arrow.float64()),
        "advantage": arrow.float64(),
        "policy_id": arrow.string(),
        "tokens": arrow.int64(),
        "truncated": arrow.bool_(),
        "turns": arrow.int64(),
        "staleness": arrow.int64(),
        "attempt": arrow.int64(),
        "spans": arrow.list_(span),
        "recorded": arrow.bool_(),
        "record": arrow.binary(),
    }
    return arrow.schema([(one.name, types[one.name]) for one in fields(Sample)])


def _sample(row: dict[str, Any]) -> Sample:
    tests = tuple(FailedTest(**one) for one in row["failed_tests"])
    spans = tuple(Span(**one) for one in row.get("spans") or ())
    return Sample(**{**row, "failed_tests": tests, "components": dict(row["components"]), "spans": spans})
