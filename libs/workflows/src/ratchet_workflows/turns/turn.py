"""One turn of the ratchet, by the public API only: measure the champion, train, measure the candidate, gate, release.

Each stage may be begun any number of times: it takes what there is by the id on record, or by the request id that it
was created under, follows it, and writes down what came of it. So a turn that was cut off goes on where it was.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from ratchet.eval.v1 import eval_pb2
from ratchet.gateway.v1 import release_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import ApiError, Client, Unreachable
from ratchet_kit import refs
from ratchet_kit.names import VersionRef
from ratchet_workflows.errors import WorkflowError
from ratchet_workflows.following import evaluations, releases, runs
from ratchet_workflows.following.gates import decided, passed
from ratchet_workflows.kept import Kept
from ratchet_workflows.notation.references import champion
from ratchet_workflows.progress import Progress
from ratchet_workflows.turns.plan import Plan
from ratchet_workflows.turns.records import Record, State

PATIENCE_S = 600.0
"""How long nothing may answer before a turn gives up for now."""
RETRY_S = 5.0
LONG_S = 300.0
"""Work that went on for longer had an answer in between."""
MOST_ATTEMPTS = 20
"""Attempts at an evaluation, a gate or a release that failed."""

T = TypeVar("T")


class _Made(Protocol):
    """The resource that a stage creates."""

    id: str


M = TypeVar("M", bound=_Made)


class Turn:
    def __init__(self, client: Client, plan: Plan, kept: Kept, record: Record, *, progress: Progress) -> None:
        self._client = client
        self._plan = plan.learning(record.pairs)
        self._kept = kept
        self.record = record
        self._progress = progress

    def finish(self) -> Record:
        """Goes on until the turn has ended. Raises WorkflowError for a stage that failed, and the client's errors."""
        base = VersionRef(self._plan.model, self.record.base)
        self._stage(f"measure {base}", lambda: self._measure(base))
        candidate = self._stage(f"train {self._plan.train.steps} steps", lambda: self._train(base))
        self._stage(f"measure {candidate}", lambda: self._measure(candidate))
        while True:
            gate = self._stage("gate", lambda: self._gate(candidate))
            if not passed(gate):
                return self._end(State.REFUSED, f"{candidate} is not released. {gate.reason}{_missing(gate)}")
            release = self._stage(f"release {candidate}", partial(self._release, candidate, gate.id))
            if release is not None:
                break
            self._note(gate="")
        if release.state == release_pb2.Release.STATE_ROLLED_BACK:
            return self._end(State.ROLLED_BACK, _rolled_back(candidate, release))
        releases.raise_unless_succeeded(release)
        before = VersionRef(self._plan.model, self.record.champion)
        return self._end(State.RELEASED, f"{candidate} is released: it is the champion, as {before} was. {gate.reason}")

    def _measure(self, version: VersionRef) -> None:
        known = self.record.evaluations.get(str(version))
        evaluation = self._made(
            lambda: self._client.evaluations.get(known) if known else None,
            lambda request_id: self._client.evaluations.create(self._plan.evaluation_of(version), request_id),
            lambda it: it.state in (eval_pb2.Evaluation.STATE_FAILED, eval_pb2.Evaluation.STATE_CANCELLED),
            f"evaluate-{version.number}",
        )
        self._note(evaluations={**self.record.evaluations, str(version): evaluation.id})
        if known and evaluation.state == eval_pb2.Evaluation.STATE_SUCCEEDED:
            return  # it was shown when it ended
        evaluation = evaluations.follow(self._client, evaluation.id, str(version), self._progress)
        evaluations.raise_unless_succeeded(evaluation)
        self._progress.measured(evaluation)

    def _train(self, base: VersionRef) -> VersionRef:
        if self.record.run:
            run = self._client.runs.get(self.record.run)
        else:
            run = self._client.runs.create(self._plan.run_of(base, self.record.number), f"{self._kept.id}-train")
            self._note(run=run.id)
        if run.state in (trainer_pb2.Run.STATE_FAILED, trainer_pb2.Run.STATE_CANCELLED):
            self._progress.say(f"{run.id} goes on at its last checkpoint: {run.failure.message or 'it was cancelled'}")
            self._client.runs.resume(run.id)
        run = runs.follow(self._client, run.id, self._progress)
        runs.raise_unless_succeeded(run)
        if not run.HasField("version"):
            raise WorkflowError(f"Run {run.id} succeeded but registered no version.")
        self._note(candidate=run.version.number)
        return refs.version_from_proto(run.version)

    def _gate(self, candidate: VersionRef) -> registry_pb2.Gate:
        if not self.record.gate:
            self._meet_champion(candidate)
        before = VersionRef(self._plan.model, self.record.champion)
        known = self.record.gate
        gate = self._made(
            lambda: self._client.models.gate(known) if known else None,
            lambda request_id: self._client.models.create_gate(
                refs.version_to_proto(candidate),
                self.record.evaluations[str(candidate)],
                self.record.evaluations[str(before)],
                min_difference=self._plan.gate.min_difference,
                rules=self._plan.rules,
                request_id=request_id,
            ),
            lambda it: it.state == registry_pb2.Gate.STATE_FAILED,
            f"gate-{before.number}",
        )
        self._note(gate=gate.id)
        gate = decided(self._client, gate)
        self._progress.say(gate.reason)
        return gate

    def _meet_champion(self, candidate: VersionRef) -> None:
        """Another may have become champion since: then that is what the candidate must beat."""
        now = champion(self._client, self._plan.model)
        if now is None or now == candidate:
            raise WorkflowError(
                f"{candidate} cannot be compared: the champion of {self._plan.model} is {now or 'gone'}."
            )
        if now.number != self.record.champion:
            self._progress.say(f"{now} has become champion meanwhile: {candidate} must beat it.")
            self._note(champion=now.number)
        self._measure(now)

    def _release(self, candidate: VersionRef, gate_id: str) -> release_pb2.Release | None:
        """None where another has become champion since the gate."""
        known = self.record.release
        try:
            release = self._made(
                lambda: self._client.releases.get(known) if known else None,
                lambda request_id: self._client.releases.create(self._plan.release_of(candidate, gate_id), request_id),
                lambda it: it.state == release_pb2.Release.STATE_FAILED,
                f"release-{gate_id}",
            )
        except ApiError as error:
            now = champion(self._client, self._plan.model)
            if error.code == "FAILED_PRECONDITION" and now and now.number != self.record.champion:
                return None
            raise
        self._note(release=release.id)
        return releases.follow(self._client, release.id, self._progress, to_the_end=True)

    def _made(
        self, get: Callable[[], M | None], create: Callable[[str], M], has_failed: Callable[[M], bool], name: str
    ) -> M:
        """The resource on record; where that has failed, the one under the turn's request ids, or a new one."""
        found = get()
        for attempt in range(MOST_ATTEMPTS):
            if found is not None and not has_failed(found):
                return found
            found = create(f"{self._kept.id}-{name}-{attempt}")
        raise WorkflowError(f"{found.id if found else name} failed, as {MOST_ATTEMPTS} others did; begin a new turn.")

    def _stage(self, title: str, work: Callable[[], T]) -> T:
        """The result of `work`. While nothing answers it is begun again, for PATIENCE_S."""
        self._progress.stage(title)
        failing_since: float | None = None
        while True:
            start = time.monotonic()
            try:
                return work()
            except Unreachable as error:
                now = time.monotonic()
                if failing_since is None or now - start > LONG_S:
                    failing_since = now
                if now - failing_since > PATIENCE_S:
                    raise
                self._progress.say(f"{error} It is tried again.")
                time.sleep(RETRY_S)

    def _note(self, **changes: object) -> None:
        self.record = replace(self.record, **changes)  # type: ignore[arg-type]
        self._kept.save(self.record.to_json())

    def _end(self, state: State, sentence: str) -> Record:
        self._note(state=state, sentence=sentence)
        return self.record


def _missing(gate: registry_pb2.Gate) -> str:
    """By how much the gain is too small; empty where something else was lost."""
    missing = gate.min_difference - gate.comparison.difference.low
    return f" The lower end of the interval is {missing:.3f} too low." if missing >= 0 else ""


def _rolled_back(candidate: VersionRef, release: release_pb2.Release) -> str:
    percents = [event.percent for event in release.events if event.percent]
    reason = release.events[-1].reason if release.events else "no reason is on record"
    percent = percents[-1] if percents else 0
    return f"{candidate} is not released: release {release.id} was rolled back at {percent} %: {reason.rstrip('.')}."
