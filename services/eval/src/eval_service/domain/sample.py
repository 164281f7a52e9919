"""A sample: a completion of a problem, and what its tests said of it."""

import hashlib
import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum

from ratchet_environments import Task
from ratchet_environments.failures import FailedTest, Failures
from ratchet_policies import ChatPrompt, Prompt, Sampling, TextPrompt
from ratchet_problems.extraction import defines, program_of
from ratchet_problems.languages import PYTHON
from ratchet_rewards import Grade


class FailureClass(StrEnum):
    """Why a sample did not pass."""

    WRONG = "WRONG"
    TIMEOUT = "TIMEOUT"
    MEMORY = "MEMORY"
    CRASH = "CRASH"
    NO_CODE = "NO_CODE"
    TAMPERED = "TAMPERED"
    PLATFORM = "PLATFORM"
    """Not the sample's: it was not judged."""


_BY_VERDICT = {
    "FAILED": FailureClass.WRONG,
    "TIME_LIMIT": FailureClass.TIMEOUT,
    "MEMORY_LIMIT": FailureClass.MEMORY,
    "RUNTIME_ERROR": FailureClass.CRASH,
    "COMPILE_ERROR": FailureClass.CRASH,
    "OUTPUT_LIMIT": FailureClass.CRASH,
    "TAMPERED": FailureClass.TAMPERED,
}


@dataclass(frozen=True, slots=True, order=True)
class ProblemKey:
    """Its place among an evaluation's problems."""

    benchmark: str
    """Name of the set."""
    problem_id: str


@dataclass(frozen=True, slots=True, order=True)
class SampleKey:
    """Its place among an evaluation's samples, and their order."""

    benchmark: str
    """Name of the set."""
    problem_id: str
    index: int
    """From 0, among the samples of one problem."""

    @property
    def problem(self) -> ProblemKey:
        return ProblemKey(self.benchmark, self.problem_id)


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: str
    """Without its prefix: "PASSED"."""
    tests_passed: int
    tests_total: int
    detail: str = ""
    forgeable: bool = False
    """A test ran in the program's process, which could forge its result."""
    failure: FailureClass | None = None
    """None for a pass."""
    cpu_time: timedelta | None = None
    failed_tests: tuple[FailedTest, ...] = ()
    held_out_failed: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    key: SampleKey
    completion: str
    """Of an episode its last answer."""
    policy_id: str = ""
    """The weights that made it; empty where it was imported."""
    is_program: bool = False
    """It came as a whole program, which is judged as it is."""
    request: str = ""
    """What asks for the same completion again: see `request_of`. Empty where it was imported."""
    tokens: int = 0
    """New ones, of all answers of an episode; 0 where it was imported."""
    truncated: bool = False
    """It was cut off at max_tokens."""
    generation_time: timedelta | None = None
    judgement: Judgement | None = None
    """None until it was judged."""
    turns: int = 0
    """Answers of the model; 0 where it was imported, or drawn before they were counted."""
    tool_errors: int = 0
    """See `ratchet_episodes.record.tool_errors`."""
    recorded: bool = False
    """The record of its episode is kept."""
    record: bytes = field(default=b"", repr=False)
    """Packed by `ratchet_episodes.record`: on its way to the store, and as `EvaluationStore.sample` reads it."""

    def replied(self, completion: str, tokens: int, truncated: bool) -> "Sample":
        """With a later answer of its episode in the place of the one before. Nobody who asks for the first one is given
        it."""
        return replace(
            self,
            completion=completion,
            tokens=self.tokens + tokens,
            truncated=truncated,
            request="",
            turns=self.turns + 1,
        )

    def judged(self, judgement: Judgement) -> "Sample":
        return replace(self, judgement=judgement)

    def without_texts(self) -> "Sample":
        """Drops what is not kept for long."""
        judgement = replace(self.judgement, detail="", failed_tests=()) if self.judgement else None
        return replace(self, completion="", request="", judgement=judgement, recorded=False, record=b"")

    def again(self, key: SampleKey) -> "Sample":
        """The same completion in another place: another evaluation asked for it, or another set has the problem."""
        return replace(self, key=key, judgement=None)


def judgement_of(grade: Grade, task: Task, answer: str, failures: Failures = Failures()) -> Judgement:
    """`answer`: what was judged."""
    return Judgement(
        grade.verdict,
        grade.tests_passed,
        grade.tests_total,
        grade.detail,
        grade.forgeable,
        _failure(grade, task, answer),
        grade.cpu_time,
        failures.tests,
        failures.held_out,
    )


def failure_of(verdict: str) -> FailureClass:
    return _BY_VERDICT.get(verdict, FailureClass.CRASH)


def _failure(grade: Grade, task: Task, answer: str) -> FailureClass | None:
    if grade.passed:
        return None
    found = failure_of(grade.verdict)
    expects_code = task.problem.tests and not task.problem.answers
    if expects_code and found in (FailureClass.WRONG, FailureClass.CRASH) and not _has_code(task, answer):
        return FailureClass.NO_CODE
    return found


def _has_code(task: Task, answer: str) -> bool:
    problem = task.problem
    name = problem.entry_point.partition(".")[0]
    if not answer.strip() or not name or problem.language != PYTHON:
        return bool(answer.strip())
    return defines(answer if task.is_program else program_of(problem, answer), name)


def request_of(identity: str, prompt: Prompt, sampling: Sampling) -> str:
    """The hash of all that a completion depends on: whoever asks for the same again may have the same answer.
    `identity` is of the model: its weights and its settings."""
    match prompt:
        case TextPrompt(text):
            put: object = text
        case ChatPrompt(messages, _, template):
            put = [[message.role, message.content] for message in messages]
            identity = f"{identity} {template}" if template else identity  # without: as it always was
        case _:
            put = list(prompt.ids)
    seed = sampling.seed if sampling.temperature else None  # greedy samples are all the same
    parts = [identity, put, sampling.temperature, sampling.max_tokens, list(sampling.stop), seed]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
