"""ProblemSource on libs/problems."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import ratchet_problems
from eval_service.domain.ports import ProblemSet, Put
from eval_service.domain.spec import Form, ProblemSetRef
from ratchet_kit.errors import FieldViolation, InvalidArgument, NotFound
from ratchet_kit.places import Places
from ratchet_problems import Message, Problem
from ratchet_problems.extraction import source_for


class LibraryProblems:
    def __init__(self, places: Places) -> None:
        """`places`: where callers' files may lie."""
        self._places = places

    async def check(self, ref: ProblemSetRef) -> None:
        if ref.name in ratchet_problems.NAMES:
            return  # generating a large set takes seconds
        await self.load(ref)

    async def load(self, ref: ProblemSetRef) -> ProblemSet:
        return await asyncio.to_thread(_load, self._places, ref)


@dataclass(frozen=True, slots=True)
class LibrarySet:
    problems: Sequence[Problem]
    digest: str
    version: str = ""

    def put(self, problem: Problem, form: Form, shots: int | None) -> Put:
        if shots:
            raise InvalidArgument("these problems have no solved examples to show: shots must be 0")
        if form is Form.COMPLETION:
            return Put(text=problem.prompt)
        return Put((Message("user", problem.prompt),))

    def program(self, problem: Problem, completion: str) -> str:
        return source_for(problem.prompt, problem.entry_point, completion)


def _load(places: Places, ref: ProblemSetRef) -> LibrarySet:
    try:
        name = str(places.file(ref.name)) if ref.name.endswith(".jsonl") else ref.name
        problems = ratchet_problems.load(name, limit=ref.limit)
    except (NotFound, InvalidArgument) as error:
        violation = FieldViolation("spec.problems.name", error.message)
        raise InvalidArgument(f"the problem set cannot be used: {error.message}", [violation]) from error
    return LibrarySet(problems, ratchet_problems.data_digest(problems))
