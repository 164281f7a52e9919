"""ProblemSource on libs/problems."""

import asyncio

import ratchet_problems
from eval_service.domain.ports import ProblemSet
from eval_service.domain.spec import ProblemSetRef
from ratchet_kit.errors import FieldViolation, InvalidArgument, NotFound


class LibraryProblems:
    async def check(self, ref: ProblemSetRef) -> None:
        if ref.name in ratchet_problems.NAMES:
            return  # generating a large set takes seconds
        await self.load(ref)

    async def load(self, ref: ProblemSetRef) -> ProblemSet:
        return await asyncio.to_thread(_load, ref)


def _load(ref: ProblemSetRef) -> ProblemSet:
    try:
        problems = ratchet_problems.load(ref.name, limit=ref.limit)
    except (NotFound, InvalidArgument) as error:
        violation = FieldViolation("spec.problems.name", error.message)
        raise InvalidArgument(f"the problem set cannot be used: {error.message}", [violation]) from error
    return ProblemSet(problems, ratchet_problems.data_digest(problems))
