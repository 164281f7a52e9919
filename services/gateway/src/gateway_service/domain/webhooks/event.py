"""What webhooks are told of."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from gateway_service.domain.experiments import experiment as experiments
from gateway_service.domain.experiments.experiment import Experiment
from gateway_service.domain.releases import release as releases
from gateway_service.domain.releases.release import Release


class Kind(StrEnum):
    """An event's type, as endpoints and those who make webhooks name it."""

    RUN_SUCCEEDED = "run.succeeded"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    EVALUATION_SUCCEEDED = "evaluation.succeeded"
    EVALUATION_FAILED = "evaluation.failed"
    EVALUATION_CANCELLED = "evaluation.cancelled"
    VERSION_READY = "version.ready"
    VERSION_FAILED = "version.failed"
    RELEASE_PROMOTED = "release.promoted"
    RELEASE_ROLLED_BACK = "release.rolled_back"
    RELEASE_FAILED = "release.failed"
    EXPERIMENT_CONCLUDED = "experiment.concluded"
    EXPERIMENT_STOPPED = "experiment.stopped"


@dataclass(frozen=True, slots=True)
class Event:
    id: str
    """The same however often the event is told of."""
    kind: Kind
    create_time: datetime
    resource: str
    """Such as "runs/run_01...": what REST has below /api/v1."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """More of it, in short; the resource itself is what holds."""

    def body(self) -> str:
        """As endpoints get it: https://github.com/standard-webhooks/standard-webhooks, "Payload structure"."""
        timestamp = self.create_time.astimezone(UTC).isoformat().replace("+00:00", "Z")
        known = {name: value for name, value in self.attributes.items() if value}
        return json.dumps({"type": self.kind, "timestamp": timestamp, "data": {"resource": self.resource, **known}})


_RELEASE_KINDS = {
    releases.State.WATCHING: Kind.RELEASE_PROMOTED,
    releases.State.SUCCEEDED: Kind.RELEASE_PROMOTED,
    releases.State.ROLLED_BACK: Kind.RELEASE_ROLLED_BACK,
    releases.State.FAILED: Kind.RELEASE_FAILED,
}
_EXPERIMENT_KINDS = {
    experiments.State.CONCLUDED: Kind.EXPERIMENT_CONCLUDED,
    experiments.State.STOPPED: Kind.EXPERIMENT_STOPPED,
}


def event_of_release(release: Release) -> Event | None:
    """What a release in this state is told as, the same at each of its later changes; None while it is under way."""
    kind = _RELEASE_KINDS.get(release.state)
    if kind is None:
        return None
    time = release.end_time or release.stage_start_time or release.create_time
    reason = release.events[-1].reason if release.events else ""
    attributes = {"model": release.model, "candidate": str(release.candidate), "baseline": str(release.baseline)}
    return Event(f"{release.id}.{kind}", kind, time, f"releases/{release.id}", attributes | {"reason": reason})


def event_of_experiment(experiment: Experiment) -> Event | None:
    """As `event_of_release`."""
    kind = _EXPERIMENT_KINDS.get(experiment.state)
    if kind is None:
        return None
    conclusion = experiment.report.conclusion if experiment.report else ""
    attributes = {"model": experiment.model, "conclusion": conclusion, "reason": experiment.events[-1].reason}
    time = experiment.end_time or experiment.create_time
    return Event(f"{experiment.id}.{kind}", kind, time, f"experiments/{experiment.id}", attributes)
