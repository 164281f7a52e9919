"""A training run and what may become of it.

QUEUED -> STARTING -> RUNNING -> SUCCEEDED      any of the first three -> FAILED, CANCELLED
  ^__________|__________|  again: the job died, or made room; the next attempt goes on from its last checkpoint
FAILED, CANCELLED -> QUEUED  resume: somebody wants it taken up where it was
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType

from ratchet_kit.errors import FailedPrecondition, Failure
from ratchet_kit.names import VersionRef
from ratchet_kit.usage import Usage, total
from trainer_service.domain.run.checkpoint import Checkpoint, best
from trainer_service.domain.spec.spec import Passes, ProblemSetRef, RunSpec

RunId = NewType("RunId", str)
MAX_NOTICES = 100
"""That a run keeps: the newest."""
TOKENS_SO_FAR = "tokens_total"
"""The metric of a step that has the tokens of the run up to its end."""


class State(StrEnum):
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (State.SUCCEEDED, State.FAILED, State.CANCELLED)


UNFINISHED = tuple(state for state in State if not state.is_final)
_STARTED = (State.STARTING, State.RUNNING)


class Phase(StrEnum):
    """What a run that is STARTING or RUNNING does: for people, and no part of what is decided."""

    SUBMITTING = "submitting"
    LOADING_MODEL = "loading_model"
    LOADING_POLICY = "loading_policy"
    GENERATING = "generating"
    UPDATING = "updating"
    VALIDATING = "validating"
    SAVING = "saving"
    REGISTERING = "registering"


@dataclass(frozen=True, slots=True)
class Step:
    """What a step measured."""

    number: int
    metrics: Mapping[str, float]
    policy_id: str
    """The weights after it."""
    create_time: datetime
    attempt: int
    platform_faults: int = 0
    """Samples masked in it."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run was expected to take when it was created."""

    peak_bytes: int
    """On CPU of all training processes on one machine, on CUDA of one GPU."""
    limit_bytes: int | None = None
    """None: not known."""
    step_time: timedelta | None = None
    """Of the longest step; None where the speed of the device is not known."""
    cost: float | None = None
    """The cost of all steps, if each is the longest; None where that is not known, or has no price."""
    currency: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence about what a guard saw, or did."""

    step: int
    message: str
    create_time: datetime
    guard: str = ""
    """Its name (`guards.GUARDS`); empty where it is of the run's own."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A newer version of the run's problems, which takes the place of the one before."""

    problems: ProblemSetRef
    step: int
    """The first that draws from it."""


@dataclass(frozen=True, slots=True)
class Track:
    """How far a tracker has come with a run."""

    tracker: str
    step: int = 0
    """The last that it has had."""
    key: str = ""
    """What it calls the run."""
    seen: str = ""
    """Attempt and state of the run when it was last told of it."""
    scored: tuple[int, ...] = ()
    """Steps of which it has had the score by an evaluation."""
    is_done: bool = False
    """It has all of a run that is over, or was given up."""
    fault: str = ""
    """Why it did not take the last that it was sent; noticed on the run."""


@dataclass(frozen=True, slots=True)
class Run:
    id: RunId
    spec: RunSpec
    state: State
    create_time: datetime
    update_time: datetime
    """The last change, so also the last report of the job."""
    failure: Failure | None = None
    step: int = 0
    attempt: int = 0
    """Counts the starts of the job; reports of an older one are refused."""
    platform_faults: int = 0
    version: VersionRef | None = None
    """What the registry made of the best checkpoint, where the spec wants that."""
    best_checkpoint: Checkpoint | None = None
    start_time: datetime | None = None
    trained_time: datetime | None = None
    """When the job had done all its steps. The run goes on until its best checkpoint is where the spec wants it."""
    phase: Phase | None = None
    phase_time: datetime | None = None
    """Since when."""
    end_time: datetime | None = None
    actor: str = ""
    """The id of the API key that asked for it; empty when none is known."""
    cancel_actor: str = ""
    """The same, of its cancellation."""
    fruitful_attempt: int = 0
    """The last that did a step which none had done before, or the last before the run was resumed."""
    place: str = ""
    """Where the job of this attempt was submitted, see `JobRunner.place`."""
    nodes: int = 0
    """Machines of this attempt; 0: as many as the spec says, or none yet."""
    heartbeat_time: datetime | None = field(default=None, compare=False)
    """When the job of this attempt last said that it lives: no change of the run."""
    resumes: int = 0
    """How often it was taken up again."""
    resume_actor: str = ""
    """The id of the API key that asked for the last of them."""
    forecast: Forecast | None = None
    out_of_memory: int = 0
    """Attempts that ran out of memory: the next one makes half as many tokens a pass."""
    notices: tuple[Notice, ...] = ()
    """The oldest first."""
    tokens: int = 0
    """Of prompts and responses that its steps have trained on."""
    tracks: tuple[Track, ...] = field(default=(), compare=False)
    """Of the trackers that are to show it; no change of the run."""
    preempted_by: str = ""
    """The run of higher priority that it makes room for: while its job goes on, after the step under way; then until
    its next attempt."""
    preemptions: int = 0
    """Attempts that ended so."""
    waits_for: str = ""
    """In words. Of one that has trained, evaluations of its checkpoints; of one that is QUEUED, as this process sees it
    (`Scheduler`), and not stored."""
    drawn: tuple[Drawn, ...] = ()
    """The newer versions of its problems, where it follows them, oldest first."""
    drawn_step: int = 0
    """The last step of which is settled what it draws from."""
    usages: tuple[Usage, ...] = field(default=(), compare=False)
    """By attempt, as its job said last; no change of the run."""

    @property
    def usage(self) -> Usage:
        """The sum over all attempts."""
        return total(self.usages)

    def used(self, attempt: int, usage: Usage) -> "Run":
        """Notes the usage of this attempt until now."""
        self._require_attempt(attempt)
        before = (*self.usages, *[Usage()] * attempt)[: attempt - 1]
        return replace(self, usages=(*before, usage))

    def track(self, tracker: str) -> Track | None:
        return next((one for one in self.tracks if one.tracker == tracker), None)

    def tracked(self, track: Track) -> "Run":
        """The tracker has come so far. A run that was resumed meanwhile goes on."""
        others = tuple(one for one in self.tracks if one.tracker != track.tracker)
        return replace(self, tracks=(*others, replace(track, is_done=track.is_done and self.state.is_final)))

    @property
    def futile_attempts(self) -> int:
        """Since the run last came further."""
        return self.attempt - self.fruitful_attempt

    @classmethod
    def create(
        cls,
        id: RunId,
        spec: RunSpec,
        now: datetime,
        actor: str = "",
        forecast: Forecast | None = None,
        trackers: Sequence[str] = (),
    ) -> "Run":
        """`trackers`: those that are to show it."""
        return cls(
            id=id,
            spec=spec,
            state=State.QUEUED,
            create_time=now,
            update_time=now,
            actor=actor,
            forecast=forecast,
            tracks=tuple(Track(tracker) for tracker in trackers),
        )

    def start(self, now: datetime, place: str = "", nodes: int = 0) -> "Run":
        """It is its turn: the job of its next attempt is about to be submitted at `place`, for these `nodes`."""
        self._require("start", State.QUEUED)
        started = replace(
            self,
            state=State.STARTING,
            attempt=self.attempt + 1,
            place=place,
            nodes=nodes,
            preempted_by="",
            heartbeat_time=None,
            start_time=self.start_time or now,
            update_time=now,
        )
        return _in_phase(started, Phase.SUBMITTING, now)

    def preempt(self, attempt: int, by: str, now: datetime) -> "Run":
        """Its job is to end after the step under way, and make room for the run `by`; empty: it goes on after all."""
        self._require_attempt(attempt)
        self._require("make room", State.RUNNING)
        return replace(self, preempted_by=by, update_time=now)

    def begin(self, attempt: int, now: datetime) -> "Run":
        """The job of this attempt is up. Reported twice, it changes nothing."""
        self._require_attempt(attempt)
        self._require("begin", *_STARTED)
        return replace(self, state=State.RUNNING, update_time=now)

    def beat(self, attempt: int, now: datetime, waits_for: str = "") -> "Run":
        """The job of this attempt lives. `waits_for`: what it cannot go on without, if there is something."""
        self._require_attempt(attempt)
        self._require("hear of its job", *_STARTED)
        heard = replace(self, heartbeat_time=now)
        notice = f"attempt {attempt} waits, and tries again: {waits_for}"
        if not waits_for or (self.notices and self.notices[-1].message == notice):
            return heard
        return heard.noticed(notice, now)

    def enter(self, attempt: int, phase: Phase, now: datetime) -> "Run":
        """The job of this attempt does something else from now on. A report that comes after the last step was late: it
        changes nothing."""
        self._require_attempt(attempt)
        self._require("enter a phase", *_STARTED)
        if self.trained_time:
            return self
        return _in_phase(replace(self, update_time=now), phase, now)

    def progress(self, step: Step, replaced: Step | None, now: datetime) -> "Run":
        """A step is done. `replaced` is what its number held before: the same report again, or an older attempt's.

        Faults count once for each attempt that met them.
        """
        self._require_attempt(step.attempt)
        self._require("progress", State.RUNNING)
        counted = replaced.platform_faults if replaced and replaced.attempt == step.attempt else 0
        faults = self.platform_faults + step.platform_faults - counted
        fruitful = self.fruitful_attempt if replaced else step.attempt
        return replace(
            self,
            step=step.number,
            platform_faults=faults,
            fruitful_attempt=fruitful,
            tokens=int(step.metrics.get(TOKENS_SO_FAR, self.tokens)),
            update_time=now,
        )

    @property
    def newest_problems(self) -> ProblemSetRef:
        """The version that it now draws from."""
        return self.drawn[-1].problems if self.drawn else self.spec.problems

    def drawn_by(self, step: int) -> tuple[Drawn, ...]:
        """The newer versions that its steps up to this one were drawn from."""
        return tuple(one for one in self.drawn if one.step <= step)

    def check_drawing(self, attempt: int) -> None:
        """Raises FailedPrecondition where the job of this attempt draws nothing any more."""
        self._require_attempt(attempt)
        self._require("draw problems", *_STARTED)

    def draws(self, attempt: int, step: int, newer: ProblemSetRef | None, now: datetime) -> "Run":
        """It is settled what this step is drawn from: `newer`, or as before. A step that is settled stays so."""
        self.check_drawing(attempt)
        if step <= self.drawn_step:
            return self
        settled = replace(self, drawn_step=step, update_time=now)
        if newer is None:
            return settled
        drawn = replace(settled, drawn=(*self.drawn, Drawn(newer, step)))
        return drawn.noticed(f"{newer.name} is drawn from, from step {step} on", now)

    def checkpointed(self, attempt: int, checkpoints: Sequence[Checkpoint], now: datetime) -> "Run":
        """A checkpoint was added to the run's `checkpoints`."""
        self._require_attempt(attempt)
        self._require("checkpoint", State.RUNNING)
        return replace(self, best_checkpoint=best(checkpoints), update_time=now)

    def chosen(self, checkpoints: Sequence[Checkpoint], now: datetime) -> "Run":
        """One of its `checkpoints` has a score, or gets none. What is over stays as it is."""
        return self if self.state.is_final else replace(self, best_checkpoint=best(checkpoints), update_time=now)

    def awaits_scores(self, waits_for: str, now: datetime) -> "Run":
        """One that has trained waits for evaluations of its checkpoints, or for none any more: an empty text."""
        phase = Phase.VALIDATING if waits_for else Phase.REGISTERING
        if self.state.is_final or not self.trained_time or (waits_for, phase) == (self.waits_for, self.phase):
            return self
        return _in_phase(replace(self, waits_for=waits_for, update_time=now), phase, now)

    def trained(self, attempt: int, now: datetime) -> "Run":
        """The job has done all its steps."""
        self._require_attempt(attempt)
        self._require("finish", State.RUNNING)
        if not self.has_all_steps:
            ended = f"the job ended after {self.step} of {self.spec.steps} steps"
            return self.fail(Failure("INTERNAL", ended), now)
        trained = replace(self, trained_time=self.trained_time or now, update_time=now)
        return _in_phase(trained, Phase.VALIDATING if self.spec.validate else Phase.REGISTERING, now)

    def broken(self, attempt: int, failure: Failure, now: datetime) -> "Run":
        """The job reports that it cannot go on, and that another attempt could not either. Of a run that has done all
        its steps, no job can say that."""
        self._require_attempt(attempt)
        self._require("be broken", *_STARTED)
        if self.trained_time:
            raise FailedPrecondition(f"run {self.id} has done all its steps")
        return self.fail(failure, now)

    def again(self, attempt: int, now: datetime, excuse: str = "", reason: str = "") -> "Run":
        """The job of `attempt` is gone before its end: it is queued for the next one. `excuse`: why that attempt is not
        counted as one that brought it no further, where it is not. `reason`: why it is gone, which is noticed, too."""
        self._require_attempt(attempt)
        self._require("start again", *_STARTED)
        if self.trained_time:
            raise FailedPrecondition(f"run {self.id} has done all its steps")
        queued = replace(self, state=State.QUEUED, nodes=0, phase=None, phase_time=None, update_time=now)
        if self.preempted_by:
            queued = replace(queued, preemptions=self.preemptions + 1)
            excuse = f"pre-empted by {self.preempted_by}: it goes on at its last checkpoint when there is room again"
        if excuse:
            return replace(queued, fruitful_attempt=attempt).noticed(excuse, now)
        if reason:
            return queued.noticed(f"attempt {attempt} was lost, and is followed by another: {reason}", now)
        return queued

    def leaner(self, attempt: int, now: datetime) -> "Run":
        """The job of `attempt` ran out of memory: the next one makes half as many tokens a pass, and no activation is
        kept. Only once: see `passes`."""
        before = self.passes
        queued = replace(self.again(attempt, now), out_of_memory=self.out_of_memory + 1)
        after = queued.passes
        return queued.noticed(
            f"attempt {attempt} ran out of memory with passes of {before.tokens} tokens: the next makes passes of"
            f" {after.tokens}, and activations a second time",
            now,
        )

    def noticed(self, message: str, now: datetime, guard: str = "") -> "Run":
        notice = Notice(self.step, message, now, guard)
        return replace(self, notices=(*self.notices, notice)[-MAX_NOTICES:], update_time=now)

    def stopped(self, message: str, now: datetime) -> "Run":
        """A guard ends it before its time: FAILED, since it has not done what was asked; what was best stays."""
        best = self.best_checkpoint
        score = "" if best is None or best.validation_score is None else f", which scored {best.validation_score:.3f},"
        kept = f"the best checkpoint, of step {best.step}{score} stays" if best else "it has no checkpoint yet"
        return self.fail(Failure("ABORTED", f"stopped at step {self.step}: {message}; {kept}"), now)

    @property
    def has_all_steps(self) -> bool:
        """It has done the steps of its spec, or those that its tokens or its budget were enough for."""
        most, budget = self.spec.max_tokens, self.spec.budget
        return (
            self.step >= self.spec.steps
            or (most is not None and self.tokens >= most)
            or (budget is not None and (self.usage.cost or 0.0) >= budget)
        )

    @property
    def is_leanest(self) -> bool:
        """Nothing is left to try against want of memory: it was tried, or nothing can be had by it."""
        return self.out_of_memory > 0 or self.spec.passes(1) == self.passes

    @property
    def passes(self) -> Passes:
        """Those of the attempt that is next, or under way."""
        return self.spec.passes(self.out_of_memory)

    def succeed(self, version: VersionRef | None, now: datetime) -> "Run":
        """All is done. `version`: what the registry made of the best checkpoint, None when that was not asked for."""
        self._require("succeed", State.RUNNING)
        if not self.trained_time:
            raise FailedPrecondition(f"run {self.id} has steps to do")
        return _ended(replace(self, version=version), State.SUCCEEDED, now)

    def fail(self, failure: Failure, now: datetime) -> "Run":
        self._require("fail", *UNFINISHED)
        return _ended(replace(self, failure=failure), State.FAILED, now)

    def cancel(self, now: datetime, actor: str = "") -> "Run":
        """By `actor`. Cancelled once is cancelled: again it changes nothing."""
        if self.state is State.CANCELLED:
            return self
        self._require("cancel", *UNFINISHED)
        return _ended(replace(self, cancel_actor=actor), State.CANCELLED, now)

    def resume(self, now: datetime, actor: str = "") -> "Run":
        """Taken up again by `actor` at its last checkpoint, or at its base where there is none. A run that is under way
        is what was asked for: nothing changes."""
        if not self.state.is_final:
            return self
        self._require("be resumed", State.FAILED, State.CANCELLED)
        return replace(
            self,
            state=State.QUEUED,
            nodes=0,
            failure=None,
            trained_time=None,
            end_time=None,
            update_time=now,
            cancel_actor="",
            preempted_by="",
            fruitful_attempt=self.attempt,
            resumes=self.resumes + 1,
            resume_actor=actor,
            tracks=tuple(replace(track, is_done=False) for track in self.tracks),
        )

    def check_deletable(self) -> None:
        """Raises FailedPrecondition while the run is under way."""
        self._require("be deleted", *(state for state in State if state.is_final))

    def _require(self, action: str, *states: State) -> None:
        if self.state not in states:
            raise FailedPrecondition(f"run {self.id} is {self.state.name}: it cannot {action}")

    def _require_attempt(self, attempt: int) -> None:
        if attempt != self.attempt:
            raise FailedPrecondition(f"run {self.id} is at attempt {self.attempt}: attempt {attempt} is stale")


def _ended(run: Run, state: State, now: datetime) -> Run:
    return replace(run, state=state, phase=None, phase_time=None, waits_for="", end_time=now, update_time=now)


def _in_phase(run: Run, phase: Phase, now: datetime) -> Run:
    return run if phase is run.phase else replace(run, phase=phase, phase_time=now)
