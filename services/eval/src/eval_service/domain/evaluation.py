"""An evaluation and its life: QUEUED, RUNNING, then SUCCEEDED, FAILED or CANCELLED."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from eval_service.domain.score import Score
from eval_service.domain.spec import EvaluationSpec, Form
from ratchet_kit.errors import DeadlineExceeded, FailedPrecondition, Failure
from ratchet_kit.times import time_left
from ratchet_kit.usage import Usage
from ratchet_kit.work import Held, Hold

_NAMED = 3
"""As many others a sentence names."""


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self not in (State.QUEUED, State.RUNNING)


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """What a model reference meant when the evaluation was created: an alias that moves later changes nothing."""

    source: str
    """Folder or fsspec URL of the weights."""
    policy_id: str = ""
    """As the registry knows it; empty for a path, whose weights are known once they are loaded."""
    settings_id: str = ""
    """The same of its config, tokenizer and chat template."""
    version: str = ""
    """ "starter@2"; empty for a path."""
    engine_model: str = ""
    """Model of the registry whose engine settings it has; empty: none."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Where the present worker began: what came since says when it will end."""

    time: datetime
    samples: int
    """As many were judged by then."""


@dataclass(frozen=True, slots=True)
class References:
    """How far it is with what comes before the samples: the references of its problems."""

    tried: int = 0
    total: int = 0
    """Of the problems whose samples are here; 0 before they are known."""


@dataclass(frozen=True, slots=True)
class Added:
    """How far it is with the samples that its caller adds."""

    samples: int = 0
    time: datetime | None = None
    """When the last ones came."""


@dataclass(frozen=True, slots=True)
class Evaluation(Held):
    id: str
    spec: EvaluationSpec
    model: ResolvedModel | None
    """None where samples are imported."""
    create_time: datetime
    state: State = State.QUEUED
    failure: Failure | None = None
    policy_id: str = ""
    """The weights that are measured; set when they were first loaded, and then fixed."""
    score: Score | None = None
    """Set once it has succeeded."""
    start_time: datetime | None = None
    end_time: datetime | None = None
    notices: tuple[str, ...] = ()
    """What its caller should know, found when it was created."""
    added: Added = Added()
    references: References = References()
    pace: Pace | None = None
    usage: Usage = field(default_factory=Usage)
    """The sum over all attempts; a lost one counts until its last look."""
    forecast: Usage | None = None
    """Expected when it was created; None: nothing to go by."""
    actor: str = ""
    """Id of the API key that created it."""

    def claim(self, owner: str, now: datetime, lease: timedelta) -> "Evaluation":
        """Gives it to a worker. Raises FailedPrecondition when it has ended or waits for samples, Aborted when a living
        worker has it."""
        if self.awaits_samples and not self.state.ended:
            raise FailedPrecondition(f"{self.label} waits for its samples")
        held = Held.claim(self, owner, now, lease)
        return replace(held, state=State.RUNNING, start_time=self.start_time or now)

    def load_problems(self, owner: str, loaded: Sequence[tuple[str, str]], shown: str = "") -> "Evaluation":
        """Fixes what is measured: digest and version of each set, and the digest of the examples' set. Raises
        FailedPrecondition when a resumed one would go on with other problems."""
        self.check_held(owner)
        named = [(entry.problems, digest) for entry, (digest, _) in zip(self.spec.suite, loaded, strict=True)]
        for problems, digest in [*named, *([(self.spec.examples, shown)] if self.spec.examples else [])]:
            before = problems.digest
            if before and before != digest:
                raise FailedPrecondition(f"the problems of {problems.name} changed: {before[:19]} to {digest[:19]}")
        return replace(self, spec=self.spec.with_loaded(loaded, shown))

    def measure(self, owner: str, policy_id: str, settings_id: str, form: Form) -> "Evaluation":
        """Fixes whose samples these are, and the form of the prompts. Raises FailedPrecondition when they would come
        from other weights, or from the same with another tokenizer, chat template or config."""
        self.check_held(owner)
        expected = self.expected_policy_id
        if expected and expected != policy_id:
            raise FailedPrecondition(f"{self.label} measures {expected}, but {policy_id} was loaded")
        if self.settings_id and settings_id not in ("", self.settings_id):
            raise FailedPrecondition(
                f"{self.label} measures a model whose config, tokenizer and chat template are {self.settings_id}, "
                f"but {settings_id} was loaded"
            )
        model = replace(self.model, settings_id=settings_id or self.settings_id) if self.model else None
        prompting = replace(self.spec.prompting, form=self.spec.prompting.form or form)
        return replace(self, model=model, policy_id=policy_id, spec=replace(self.spec, prompting=prompting))

    def begin(self, owner: str, pace: Pace) -> "Evaluation":
        """Its worker begins to draw and to judge."""
        self.check_held(owner)
        return replace(self, pace=pace)

    def use(self, owner: str, usage: Usage) -> "Evaluation":
        """Notes the usage until now. Raises what `check_held` raises, unless it has ended meanwhile."""
        if not self.state.ended:
            self.check_held(owner)
        return replace(self, usage=usage)

    def try_references(self, owner: str, references: References) -> "Evaluation":
        self.check_held(owner)
        return replace(self, references=references)

    def succeed(self, owner: str, score: Score, now: datetime) -> "Evaluation":
        self.check_held(owner)
        return replace(self, score=score)._end(State.SUCCEEDED, now)

    def fail(self, owner: str, failure: Failure, now: datetime) -> "Evaluation":
        self.check_held(owner)
        return replace(self, failure=failure)._end(State.FAILED, now)

    def cancel(self, now: datetime) -> "Evaluation":
        """Raises FailedPrecondition when it has succeeded or failed. Cancelling twice is fine."""
        if self.state is State.CANCELLED:
            return self
        self._must_be_under_way("cancelled")
        return self._end(State.CANCELLED, now)

    @property
    def awaits_samples(self) -> bool:
        """Its caller has not added all samples yet: no worker has it meanwhile."""
        return self.added.samples < self.spec.imported_samples

    def is_ready(self, now: datetime) -> bool:
        """A worker may claim it."""
        return not self.state.ended and not self.awaits_samples and self.hold.is_free(now)

    def add(self, samples: int, now: datetime) -> "Evaluation":
        """`samples`: as many are here now. Raises FailedPrecondition as `check_takes_samples`."""
        self.check_takes_samples()
        return self if self.state.ended else replace(self, added=Added(max(samples, self.added.samples), now))

    def abandon(self, patience: timedelta, now: datetime) -> "Evaluation":
        """Fails it where its caller has added nothing for as long; else it stays as it is."""
        if self.state.ended or not self.awaits_samples or now - (self.added.time or self.create_time) < patience:
            return self
        reason = DeadlineExceeded(
            f"{self.added.samples} of {self.spec.imported_samples} samples were added, and none for "
            f"{patience.total_seconds():.0f} s"
        )
        return replace(self, failure=Failure.of(reason))._end(State.FAILED, now)

    def waits_for(self, under_way: Sequence["Evaluation"], now: datetime) -> str:
        """Why nobody works on it, and behind what; empty where somebody does, or it has ended. `under_way`: all that
        have not ended."""
        if self.awaits_samples and not self.state.ended:
            return f"its samples: {self.added.samples} of {self.spec.imported_samples} were added"
        if not self.is_ready(now):
            return ""
        others = [one for one in under_way if one.id != self.id]
        running = [one for one in others if not one.hold.is_free(now)]
        before = [one for one in others if one.is_ready(now) and one._queued_at < self._queued_at]
        measured = ", ".join(f"{one.id} of {', '.join(one.spec.names)}" for one in running[:_NAMED])
        more = f" and {len(running) - _NAMED} more" if len(running) > _NAMED else ""
        busy = f"busy with {measured}{more}" if running else "none has taken it yet"
        ahead = f"; {len(before)} more {'waits' if len(before) == 1 else 'wait'} before it" if before else ""
        return f"a worker: {busy}{ahead}"

    @property
    def _queued_at(self) -> tuple[datetime, str]:
        return self.added.time or self.create_time, self.id

    def check_takes_samples(self) -> None:
        """Raises FailedPrecondition unless samples may be added to it: they may come again once all are here, as the
        answer to a call may be lost."""
        if not self.spec.imported_samples:
            raise FailedPrecondition(f"{self.label} generates its samples: none can be added")
        if self.awaits_samples:
            self._must_be_under_way("added to")

    def check_deletable(self) -> None:
        """Raises FailedPrecondition while it is under way."""
        if not self.state.ended:
            raise FailedPrecondition(f"{self.label} is {self.state}: cancel it before you delete it")

    @property
    def expected_policy_id(self) -> str:
        """The weights that samples must come from; empty while they are not known."""
        return self.policy_id or (self.model.policy_id if self.model else "")

    @property
    def settings_id(self) -> str:
        """Config, tokenizer and chat template that samples must come from; empty while they are not known."""
        return self.model.settings_id if self.model else ""

    @property
    def measured_model(self) -> ResolvedModel:
        """The model, with the weights that it must have. Asks for an evaluation that has a model."""
        assert self.model is not None
        return replace(self.model, policy_id=self.expected_policy_id)

    def expected_end_time(self, judged: int, total: int, now: datetime) -> datetime | None:
        """None while there is nothing to go by."""
        if self.state is not State.RUNNING or self.pace is None:
            return None
        before = self.pace.samples
        left = time_left(judged - before, total - before, now - self.pace.time)
        return None if left is None else now + left

    def seed_of(self, problem_id: str, index: int, turn: int = 0) -> int:
        """The seed of one sample, 32 bits: the same when the evaluation is resumed, or made again. `turn`: of a later
        answer of its episode."""
        later = f":{turn}" if turn else ""
        digest = hashlib.sha256(f"{self.spec.seed}:{problem_id}:{index}{later}".encode()).digest()
        return int.from_bytes(digest[:4])

    @property
    def label(self) -> str:
        return f"evaluation {self.id}"

    def _end(self, state: State, now: datetime) -> "Evaluation":
        return replace(self, state=state, end_time=now, hold=Hold(attempts=self.attempts))

    def check_open(self) -> None:
        self._must_be_under_way("worked on")

    def _must_be_under_way(self, done: str) -> None:
        if self.state.ended:
            raise FailedPrecondition(f"{self.label} is {self.state} and cannot be {done}")
