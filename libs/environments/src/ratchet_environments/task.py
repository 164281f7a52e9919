"""The task of a policy."""

from dataclasses import dataclass
from datetime import timedelta

from ratchet_problems import Message, Problem
from ratchet_problems.messages import records

MOST_CPU_TIME = timedelta(seconds=240)
"""CPU time that a sandbox gives a program unless its settings say otherwise (RATCHET_SANDBOX_MAX_CPU_TIME)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a program that is run for the task. Unset ones are the sandbox's defaults."""

    cpu_time: timedelta | None = None
    memory_bytes: int | None = None
    output_bytes: int | None = None
    """Bytes of its output."""
    processes: bool = False
    """It may start processes, where the sandbox can hold them."""


@dataclass(frozen=True, slots=True)
class Task:
    """A problem, and how it is put to a policy. Training, evaluation and serving put it the same way."""

    problem: Problem
    messages: tuple[Message, ...]
    """The first prompt of the policy."""
    runtime: str = ""
    """The sandbox's Python environment for its programs; empty: the imports choose it."""
    limits: Limits = Limits()
    is_program: bool = False
    """An answer is a whole program and is run as it is: nothing is taken out of it."""

    @property
    def conversation(self) -> list[dict[str, str]]:
        """The messages as chat templates and OpenAI's API take them."""
        return records(self.messages)

    @classmethod
    def of(cls, problem: Problem, *, runtime: str = "", limits: Limits = Limits(), is_program: bool = False) -> "Task":
        """The usual way: the problem's prompt, and nothing else."""
        return cls(problem, problem.messages, runtime, limits, is_program)
