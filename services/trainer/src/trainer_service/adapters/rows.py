"""Rows of the tables to values of the domain, and back."""

import json
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row

from ratchet_kit.errors import Failure
from ratchet_kit.names import Location, VersionRef
from ratchet_kit.sql import row_of, value_of
from ratchet_kit.statistics import Estimate
from ratchet_kit.usage import Usage
from trainer_service.adapters.tables import checkpoints, runs, steps
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Drawn, Forecast, Notice, Phase, Run, RunId, State, Step, Track
from trainer_service.domain.spec.spec import RunSpec

_SPEC = TypeAdapter(RunSpec)
_FORECAST = TypeAdapter(Forecast | None)
_NOTICES = TypeAdapter(tuple[Notice, ...])
_DRAWN = TypeAdapter(tuple[Drawn, ...])
_TRACKS = TypeAdapter(tuple[Track, ...])
_USAGES = TypeAdapter(tuple[Usage, ...])


def run_row(run: Run) -> dict[str, Any]:
    base = run.spec.base
    return row_of(
        run,
        runs,
        spec=_SPEC.dump_json(run.spec).decode(),
        display_name=run.spec.display_name,
        base_model="" if isinstance(base, Location | None) else base.model,
        output_model=run.spec.output_model,
        failure_code=run.failure.code if run.failure else None,
        failure_message=run.failure.message if run.failure else "",
        version=str(run.version or ""),
        best_step=run.best_checkpoint.step if run.best_checkpoint else None,
        estimate=_FORECAST.dump_json(run.forecast).decode(),
        tracks=_TRACKS.dump_json(run.tracks).decode(),
        is_tracked=any(not track.is_done for track in run.tracks),
        notices=_NOTICES.dump_json(run.notices).decode(),
        drawn=_DRAWN.dump_json(run.drawn).decode(),
        usages=_USAGES.dump_json(run.usages).decode(),
    )


def to_run(row: Row[Any], best: Checkpoint | None) -> Run:
    return value_of(
        Run,
        row,
        spec=_SPEC.validate_json(row.spec),
        state=State(row.state),
        failure=Failure(row.failure_code, row.failure_message) if row.failure_code else None,
        version=VersionRef.parse(row.version) if row.version else None,
        best_checkpoint=best,
        phase=Phase(row.phase) if row.phase else None,
        forecast=_FORECAST.validate_json(row.estimate),
        notices=_NOTICES.validate_json(row.notices),
        drawn=_DRAWN.validate_json(row.drawn),
        usages=_USAGES.validate_json(row.usages),
        tracks=_TRACKS.validate_json(row.tracks),
    )


def step_row(id: RunId, step: Step) -> dict[str, Any]:
    return row_of(step, steps, run_id=id, metrics=json.dumps(dict(step.metrics)))


def to_step(row: Row[Any]) -> Step:
    return value_of(Step, row, metrics=json.loads(row.metrics))


def checkpoint_row(id: RunId, checkpoint: Checkpoint) -> dict[str, Any]:
    interval = checkpoint.validation
    low, high = (interval.low, interval.high) if interval else (None, None)
    return row_of(checkpoint, checkpoints, run_id=id, validation_low=low, validation_high=high)


def to_checkpoint(row: Row[Any], label: str = "{}") -> Checkpoint:
    """`label`: how a join names its columns."""

    def get(name: str) -> Any:
        return getattr(row, label.format(name))

    score, low, high = (get(f"validation_{name}") for name in ("score", "low", "high"))
    interval = None if low is None or high is None else Estimate(score, low, high)
    return Checkpoint(
        get("step"),
        get("uri"),
        get("policy_id"),
        get("create_time"),
        score,
        interval,
        get("evaluation_id"),
        get("unscored"),
    )
