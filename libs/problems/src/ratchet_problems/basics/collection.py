"""How a basic problem is written down: a typed reference with its sentence and inputs, in one place."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ratchet_problems.problem import CallTest, Problem

Function = TypeVar("Function", bound=Callable[..., Any])
Arguments = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    reference: Callable[..., Any]
    sentence: str
    example: tuple[Arguments, object]
    inputs: tuple[Arguments, ...]
    difficulty: int


class Collection:
    """The basic problems of one module, in the order written."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._entries: list[_Entry] = []

    def problem(
        self, sentence: str, example: tuple[Arguments, object], *inputs: Arguments, difficulty: int = 1
    ) -> Callable[[Function], Function]:
        """Takes the decorated function as a reference. `sentence` goes on from "Write f(x) that".

        The example's result is written by hand, and so guards the reference, which gives the results of `inputs`.
        """

        def add(function: Function) -> Function:
            self._entries.append(_Entry(function, sentence, example, inputs, difficulty))
            return function

        return add

    def problems(self) -> tuple[Problem, ...]:
        return tuple(self._problem(entry) for entry in self._entries)

    def _problem(self, entry: _Entry) -> Problem:
        function, name = entry.reference, entry.reference.__name__
        return Problem(
            id=f"basics/{name}",
            prompt=f"Write {name}({', '.join(inspect.signature(function).parameters)}) that {entry.sentence}.",
            entry_point=name,
            tests=(
                CallTest.of(*entry.example),
                *(CallTest.of(arguments, function(*arguments)) for arguments in entry.inputs),
            ),
            references=(_program(function),),
            difficulty=entry.difficulty,
            source="ratchet/basics",
            licence="Apache-2.0",
            structure=f"basics/{self._topic}/{name}",
        )


def _program(function: Callable[..., Any]) -> str:
    lines = inspect.getsource(function).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("def "))
    return "\n".join(lines[start:]) + "\n"
