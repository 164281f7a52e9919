"""ProblemSets by ratchet_problems: named sets, and JSONL files that this machine can read."""

import asyncio
from dataclasses import replace

from ratchet_kit.errors import NotFound
from ratchet_kit.places import Places
from ratchet_problems import data_digest, examine, fingerprint, load
from trainer_service.domain.ports import FoundSet
from trainer_service.domain.spec import ProblemSetRef


class LibraryProblemSets:
    def __init__(self, places: Places) -> None:
        """`places`: where callers' files may lie."""
        self._places = places

    async def look_up(self, ref: ProblemSetRef) -> FoundSet:
        return await asyncio.to_thread(_look_up, self._places, ref)


def _look_up(places: Places, ref: ProblemSetRef) -> FoundSet:
    if ref.name.endswith(".jsonl"):  # the job runs in another folder
        path = places.file(ref.name)
        if not path.is_file():
            raise NotFound(f"there is no file {ref.name}")
        ref = replace(ref, name=str(path))
    problems = load(ref.name, limit=ref.limit)
    forgeable = next((problem.id for problem in problems if problem.forgeable), "")
    prints = tuple(fingerprint(problem) for problem in problems)
    # Those by name are our own, and tested.
    examined = problems if ref.name.endswith(".jsonl") else ()
    faults = tuple(f"{problem.id}: {fault}" for problem in examined if (fault := examine(problem)))
    without = next((problem.id for problem in problems if not problem.references), "")
    return FoundSet(replace(ref, digest=data_digest(problems)), len(problems), forgeable, prints, faults, without)
