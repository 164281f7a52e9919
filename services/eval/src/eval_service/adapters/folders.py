"""Task folders of a data set as problems of an evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from eval_service.domain.ports import Put
from eval_service.domain.spec import Form
from ratchet_environments import Limits
from ratchet_environments.folders import sets
from ratchet_environments.folders.folder import TaskFolder
from ratchet_environments.folders.sets import Entry, TaskSet
from ratchet_problems import Problem, data_digest


@dataclass(frozen=True, slots=True)
class FolderSet:
    """A problem's prompt is the instruction. Its only test stands for the folder: nothing runs it."""

    tasks: TaskSet
    entries: Mapping[str, Entry]
    """By the problem's id, which is the task's name."""
    problems: Sequence[Problem]

    @classmethod
    def read(cls, file: Path, limit: int | None) -> Self:
        """Raises InvalidArgument, OSError."""
        tasks = TaskSet(file)
        entries = {entry.name: entry for entry in tasks.entries[:limit]}
        return cls(tasks, entries, [*sets.problems(tasks, limit).values()])

    @property
    def digest(self) -> str:
        return data_digest(self.problems)

    @property
    def version(self) -> str:
        return ""

    @property
    def runtime(self) -> str:
        return ""

    @property
    def notices(self) -> Sequence[str]:
        """For who measures it."""
        forgeable = sum(entry.forgeable for entry in self.entries.values())
        said = f"{forgeable} of {len(self.entries)} tasks are forgeable: their tests share the program's process"
        return [said] if forgeable else []

    def limits(self, problem: Problem) -> Limits:
        return Limits()

    def put(self, problem: Problem, form: Form, shots: int | None) -> Put:
        """As the harness finds it; how it asks the model is its own affair."""
        return Put(problem.messages)

    def program(self, problem: Problem, completion: str) -> str:
        return completion

    def solution(self, problem: Problem, solution: str) -> str:
        return solution

    def folder(self, problem: Problem) -> TaskFolder:
        """Raises InvalidArgument, OSError."""
        return self.tasks.read(self.entries[problem.id])
