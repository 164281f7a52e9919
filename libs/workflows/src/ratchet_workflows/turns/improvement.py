"""The turns of the ratchet in one folder: which goes on, which begins, and when."""

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ratchet_client import ApiError, Client, Unreachable
from ratchet_workflows import traffic
from ratchet_workflows.errors import UsageError, WorkflowError
from ratchet_workflows.notation.fields import Source
from ratchet_workflows.notation.yaml_files import source_of
from ratchet_workflows.progress import SILENT, Progress
from ratchet_workflows.turns import checks
from ratchet_workflows.turns.feedback import RETRY_S, wait_for_feedback
from ratchet_workflows.turns.plan import Plan, read
from ratchet_workflows.turns.records import Record, State, Turns
from ratchet_workflows.turns.turn import Turn

Prepare = Callable[[Iterable[str]], None]


def improve(
    client: Client,
    plan: Path | Mapping[str, Any],
    folder: Path,
    *,
    new: bool = False,
    progress: Progress = SILENT,
    prepare: Prepare = lambda sets: None,
) -> Record:
    """Takes a turn of the ratchet: measures the champion, trains, measures the candidate, gates and releases it.

    `plan`: a YAML file, or a mapping with the same fields: model, train, evaluate, gate, release (docs/improve.md).
    `folder`: keeps the record, log and reports of each turn; created where it is not there. A turn that was cut off or
    failed goes on where it was, unless `new`. `prepare`: called with the names of the plan's sets when all of it is
    checked, before anything begins.

    Returns the record: its state is RELEASED, REFUSED or ROLLED_BACK, its sentence says why. Raises UsageError for an
    invalid plan, WorkflowError for a stage that failed or a folder that cannot be used, ApiError for what the platform
    refuses, Unreachable when nothing answers for ten minutes. After each of them the same call goes on.
    """
    source = source_of(plan)
    wanted = read(source)
    turns = Turns(folder)
    with turns.locked():
        return Improvement(client, wanted, source, turns, progress, prepare).by_hand(new=new)


class Improvement:
    """The turns of one plan. `prepare`: see `improve`."""

    def __init__(
        self, client: Client, wanted: Plan, source: Source, turns: Turns, progress: Progress, prepare: Prepare
    ) -> None:
        self._client = client
        self._plan = wanted
        self._source = source
        self._turns = turns
        self._progress = progress
        self._prepare = prepare

    def by_hand(self, *, new: bool) -> Record:
        """The turn that has not ended goes on; else another one."""
        latest = self._turns.latest()
        if latest is None or new or not latest.state.is_open:
            return self._finished(self._begun())
        return self._finished(self._same(latest))

    def of_period(self, due: str) -> None:
        """A turn that was cut off goes on, whatever its period; one that has ended in this period was this period's."""
        latest = self._turns.latest()
        if latest and (latest.state is State.RUNNING or (latest.state is State.FAILED and latest.due == due)):
            self._finished(self._same(latest))
        elif latest and latest.due == due:
            self._say(f"Turn {latest.number} was that of this period: {latest.sentence}")
        else:
            self._finished(self._begun(due))

    def by_feedback(self, wanted: int, *, new: bool) -> None:
        """Never returns."""
        checks.check(self._client, self._plan.learning(self._traffic()), self._source, self._prepare)
        while True:
            latest = self._turns.latest()
            if latest and latest.state is State.RUNNING and not new:
                record = self._same(latest)
            else:
                record = self._begun(wait_for_feedback(self._client, self._plan.model, wanted, latest, self._say))
            new = False
            try:
                self._finished(record)
            except UsageError:
                raise
            except (ApiError, Unreachable, WorkflowError) as error:
                self._progress.warn(str(error))
                time.sleep(RETRY_S)

    def _same(self, record: Record) -> Record:
        """Raises UsageError where the plan says something else now."""
        if record.plan != self._plan.digest:
            raise self._source.wrong(
                "",
                f"has changed since turn {record.number} began, which has not ended: undo that, or begin a new turn",
            )
        self._say(f"Turn {record.number} goes on.")
        return record

    def _begun(self, due: str = "") -> Record:
        pairs = self._traffic()
        now = checks.check(self._client, self._plan.learning(pairs), self._source, self._prepare)
        record = self._turns.begin(self._plan.digest, self._plan.model, now.number, due, pairs)
        self._say(
            f"Turn {record.number} begins: {now} is to be beaten. Its record and its log are in {self._turns.folder}"
        )
        return record

    def _traffic(self) -> str:
        """The data set of the model's traffic as it is now; empty where the plan learns from something else. Raises
        UsageError without any pair, and where all of them are held out."""
        if not self._plan.learns_traffic:
            return ""
        days = self._plan.days
        since = None if days is None else datetime.now(UTC) - timedelta(days=days)
        model = self._plan.model
        made = traffic.snapshot(self._client, traffic.set_name(model), model, since=since)
        if made is None or traffic.TRAIN not in [split.name for split in made.dataset.splits]:
            raise self._source.wrong("train.pairs", f"has nothing to learn from: no pairs of {model} are kept")
        name = f"{made.dataset.name}@{made.dataset.number}"
        if made.dataset.failure.message:
            raise WorkflowError(f"{name} cannot be used: {made.dataset.failure.message}.")
        self._say(f"{name}/{traffic.TRAIN} is learned from: what people found better.")
        return f"{name}/{traffic.TRAIN}"

    def _finished(self, record: Record) -> Record:
        turn = Turn(self._client, self._plan, self._turns, record, progress=self._progress)
        try:
            turn.finish()
        except (ApiError, WorkflowError, Unreachable):
            self._say(f"Turn {record.number} has not ended: begun again, it goes on; or begin a new turn.")
            raise
        finally:
            if turn.record.state is not State.RUNNING:
                self._report(turn.record)
        self._say(turn.record.sentence)
        return turn.record

    def _report(self, record: Record) -> None:
        """A failure to show it is reported; it changes nothing about the turn."""
        from ratchet_workflows.turns import report  # matplotlib: only here

        page, details = self._turns.page(record), self._turns.page(record, "-evaluations")
        try:
            if record.evaluations:
                report.write_evaluations(self._client, record, details)
            report.write(report.gather(self._client, record), page, details.name if record.evaluations else "")
        except (ApiError, Unreachable, OSError) as error:
            self._say(f"The report cannot be made: {error}")
        else:
            self._say(f"Report: {page}")

    def _say(self, line: str) -> None:
        self._progress.say(line)
        self._turns.log(line)
