"""The kinds of workflows that the platform works on: what it asks of each, in one place."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ratchet_client import ApiError, Client
from ratchet_workflows.kept import Kept
from ratchet_workflows.notation.fields import Source
from ratchet_workflows.progress import Progress
from ratchet_workflows.studies import checks as study_checks
from ratchet_workflows.studies.plan import Plan as StudyPlan
from ratchet_workflows.studies.results import StudyResults
from ratchet_workflows.studies.study import Study, ensure_optuna
from ratchet_workflows.turns import checks as turn_checks
from ratchet_workflows.turns.improvement import improve
from ratchet_workflows.turns.plan import read
from ratchet_workflows.turns.records import State


class Kind(StrEnum):
    """TURN: from a champion to the next released version. STUDY: variants, seeds and searches, compared."""

    TURN = "turn"
    STUDY = "study"


class Outcome(StrEnum):
    """REFUSED: a turn whose candidate was not released. FAILED: something of it has no result, and may be taken up
    again."""

    SUCCEEDED = "succeeded"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Ending:
    outcome: Outcome
    sentence: str


def sets(kind: Kind, source: Source) -> list[str]:
    """The names of the sets that it trains on or measures. Raises UsageError for an invalid plan."""
    return read(source).sets if kind is Kind.TURN else StudyPlan(source).sets


def check(kind: Kind, client: Client, source: Source) -> str:
    """The model that becomes better; empty for a study. Raises UsageError that names every field at fault, ApiError for
    what the platform refuses for another reason, Unreachable."""
    if kind is Kind.TURN:
        turn = read(source)
        turn_checks.check(client, turn, source)
        return turn.model
    study = StudyPlan(source)
    if study.search:
        ensure_optuna()
    study_checks.check(client, study, source, study_checks.bases(client, study))
    return ""


def work(kind: Kind, client: Client, source: Source, kept: Kept, progress: Progress, name: str, number: int) -> Ending:
    """Begins it, or goes on with it; returns when it has ended. `number`: which turn of its model it is. Raises
    WorkflowError for a stage that failed, and the client's errors."""
    if kind is Kind.TURN:
        record = improve(client, source, kept, progress, number)
        return Ending(Outcome.SUCCEEDED if record.state is State.RELEASED else Outcome.REFUSED, record.sentence)
    return _ending(Study(client, source, kept, progress, name).finish())


def abandon(client: Client, record: Mapping[str, Any]) -> None:
    """Cancels the runs and evaluations of the record that have not ended. A release goes on: it has a stop rule of its
    own. Raises Unreachable."""
    for cancel, id in _begun(client, record):
        try:
            cancel(id)
        except ApiError:  # it has ended, or is gone
            continue


def _begun(client: Client, record: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    cells = record.get("cells", ())
    runs = [record.get("run", ""), *(one["run"] for one in cells)]
    evaluations = [*record.get("evaluations", {}).values(), *(one["evaluation"] for one in cells)]
    yield from ((client.runs.cancel, id) for id in runs if id)
    yield from ((client.evaluations.cancel, id) for id in evaluations if id)


def _ending(found: StudyResults) -> Ending:
    faults = [one for one in found.results if one.fault]
    if faults:
        first = f"{faults[0].variant}, seed {faults[0].seed}: {faults[0].fault}"
        return Ending(Outcome.FAILED, f"{len(faults)} of {len(found.results)} runs have no score. {first}")
    if found.verdict:
        return Ending(Outcome.SUCCEEDED, found.verdict)
    scores = (f"{one.name} {one.pass_at_1:.3f}" for one in found.summaries if one.pass_at_1 is not None)
    return Ending(Outcome.SUCCEEDED, f"Held-out pass@1: {'; '.join(scores)}.")
