"""A turn of the ratchet, from its plan to its end."""

from datetime import UTC, datetime, timedelta

from ratchet_client import Client
from ratchet_workflows import traffic
from ratchet_workflows.errors import WorkflowError
from ratchet_workflows.kept import Kept
from ratchet_workflows.notation.fields import Source
from ratchet_workflows.progress import Progress
from ratchet_workflows.turns import checks
from ratchet_workflows.turns.plan import Plan, read
from ratchet_workflows.turns.records import Record
from ratchet_workflows.turns.turn import Turn


def improve(client: Client, source: Source, kept: Kept, progress: Progress, number: int) -> Record:
    """Measures the champion, trains, measures the candidate, gates and releases it. One that was cut off or failed goes
    on where it was. `number`: which turn of the model it is.

    The record's state is RELEASED, REFUSED or ROLLED_BACK. Raises UsageError for an invalid plan, WorkflowError for a
    stage that failed, ApiError for what the platform refuses, Unreachable when nothing answers for ten minutes.
    """
    plan = read(source)
    saved = kept.read()
    record = Record.of_json(saved) if saved else _begun(client, plan, source, kept, progress, number)
    return Turn(client, plan, kept, record, progress=progress).finish()


def _begun(client: Client, plan: Plan, source: Source, kept: Kept, progress: Progress, number: int) -> Record:
    pairs = _traffic(client, plan, source, progress)
    now = checks.check(client, plan.learning(pairs), source)
    record = Record(number=number, model=plan.model, champion=now.number, base=now.number, pairs=pairs)
    kept.save(record.to_json())
    progress.say(f"Turn {number} of {plan.model} begins: {now} is to be beaten.")
    return record


def _traffic(client: Client, plan: Plan, source: Source, progress: Progress) -> str:
    """The data set of the model's traffic as it is now; empty where the plan learns from something else. Raises
    UsageError without any pair, and where all of them are held out."""
    if not plan.learns_traffic:
        return ""
    since = None if plan.days is None else datetime.now(UTC) - timedelta(days=plan.days)
    made = traffic.snapshot(client, traffic.set_name(plan.model), plan.model, since=since)
    if made is None or traffic.TRAIN not in [split.name for split in made.dataset.splits]:
        raise source.wrong("train.pairs", f"has nothing to learn from: no pairs of {plan.model} are kept")
    name = f"{made.dataset.name}@{made.dataset.number}"
    if made.dataset.failure.message:
        raise WorkflowError(f"{name} cannot be used: {made.dataset.failure.message}.")
    progress.say(f"{name}/{traffic.TRAIN} is learned from: what people found better.")
    return f"{name}/{traffic.TRAIN}"
