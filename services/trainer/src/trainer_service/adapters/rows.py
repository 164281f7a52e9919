"""Rows of the tables to values of the domain, and back."""

import json
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row

from ratchet_kit.errors import Failure
from ratchet_kit.names import VersionRef
from ratchet_kit.statistics import Estimate
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Forecast, Notice, Phase, Run, RunId, State, Step, Track
from trainer_service.domain.spec.spec import RunSpec

_SPEC = TypeAdapter(RunSpec)
_FORECAST = TypeAdapter(Forecast | None)
_NOTICES = TypeAdapter(tuple[Notice, ...])
_TRACKS = TypeAdapter(tuple[Track, ...])


def run_row(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "spec": _SPEC.dump_json(run.spec).decode(),
        "state": run.state.value,
        "failure_code": run.failure.code if run.failure else None,
        "failure_message": run.failure.message if run.failure else "",
        "step": run.step,
        "attempt": run.attempt,
        "platform_faults": run.platform_faults,
        "version": str(run.version or ""),
        "best_step": run.best_checkpoint.step if run.best_checkpoint else None,
        "create_time": run.create_time,
        "update_time": run.update_time,
        "start_time": run.start_time,
        "trained_time": run.trained_time,
        "end_time": run.end_time,
        "phase": run.phase.value if run.phase else None,
        "phase_time": run.phase_time,
        "actor": run.actor,
        "cancel_actor": run.cancel_actor,
        "fruitful_attempt": run.fruitful_attempt,
        "estimate": _FORECAST.dump_json(run.forecast).decode(),
        "out_of_memory": run.out_of_memory,
        "place": run.place,
        "heartbeat_time": run.heartbeat_time,
        "resumes": run.resumes,
        "resume_actor": run.resume_actor,
        "tokens": run.tokens,
        "tracks": _TRACKS.dump_json(run.tracks).decode(),
        "is_tracked": any(not track.is_done for track in run.tracks),
        "preempted_by": run.preempted_by,
        "preemptions": run.preemptions,
        "notices": _NOTICES.dump_json(run.notices).decode(),
    }


def to_run(row: Row[Any], best: Checkpoint | None) -> Run:
    return Run(
        id=RunId(row.id),
        spec=_SPEC.validate_json(row.spec),
        state=State(row.state),
        create_time=row.create_time,
        update_time=row.update_time,
        failure=Failure(row.failure_code, row.failure_message) if row.failure_code else None,
        step=row.step,
        attempt=row.attempt,
        platform_faults=row.platform_faults,
        version=VersionRef.parse(row.version) if row.version else None,
        best_checkpoint=best,
        start_time=row.start_time,
        trained_time=row.trained_time,
        end_time=row.end_time,
        phase=Phase(row.phase) if row.phase else None,
        phase_time=row.phase_time,
        actor=row.actor,
        cancel_actor=row.cancel_actor,
        fruitful_attempt=row.fruitful_attempt,
        forecast=_FORECAST.validate_json(row.estimate),
        out_of_memory=row.out_of_memory,
        place=row.place,
        heartbeat_time=row.heartbeat_time,
        resumes=row.resumes,
        resume_actor=row.resume_actor,
        tokens=row.tokens,
        preempted_by=row.preempted_by,
        preemptions=row.preemptions,
        notices=_NOTICES.validate_json(row.notices),
        tracks=_TRACKS.validate_json(row.tracks),
    )


def step_row(id: RunId, step: Step) -> dict[str, Any]:
    return {
        "run_id": id,
        "number": step.number,
        "metrics": json.dumps(dict(step.metrics)),
        "policy_id": step.policy_id,
        "create_time": step.create_time,
        "attempt": step.attempt,
        "platform_faults": step.platform_faults,
    }


def to_step(row: Row[Any]) -> Step:
    return Step(row.number, json.loads(row.metrics), row.policy_id, row.create_time, row.attempt, row.platform_faults)


def checkpoint_row(id: RunId, checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "run_id": id,
        "step": checkpoint.step,
        "uri": checkpoint.uri,
        "policy_id": checkpoint.policy_id,
        "validation_score": checkpoint.validation_score,
        "validation_low": checkpoint.validation.low if checkpoint.validation else None,
        "validation_high": checkpoint.validation.high if checkpoint.validation else None,
        "create_time": checkpoint.create_time,
    }


def to_checkpoint(row: Row[Any], label: str = "{}") -> Checkpoint:
    """`label`: how a join names its columns."""

    def get(name: str) -> Any:
        return getattr(row, label.format(name))

    score, low, high = (get(f"validation_{name}") for name in ("score", "low", "high"))
    interval = None if low is None or high is None else Estimate(score, low, high)
    return Checkpoint(get("step"), get("uri"), get("policy_id"), get("create_time"), score, interval)
