"""`ratchet improve`: from a file to a released version, or to a sentence that says what kept it."""

import time
from pathlib import Path
from typing import Annotated

import typer

from ratchet_cli.commands import schedule
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, print_json, say, stderr
from ratchet_client import ApiError, Client, Unreachable
from ratchet_workflows.notation.yaml_files import YamlFile
from ratchet_workflows.turns import checks, plan
from ratchet_workflows.turns.feedback import wait_for_feedback
from ratchet_workflows.turns.plan import Plan
from ratchet_workflows.turns.records import Record, State, Turns
from ratchet_workflows.turns.turn import Turn


def improve(
    file: Annotated[Path, typer.Option("--file", "-f", help="YAML file with the model, and how to improve it.")],
    every: Annotated[
        str, typer.Option(help="Take a turn in each period (12h, 7d), until interrupted.", metavar="PERIOD")
    ] = "",
    when_feedback: Annotated[
        int, typer.Option(help="Take a turn after each N answers with a score, until interrupted.", min=0)
    ] = 0,
    new: Annotated[bool, typer.Option("--new", help="Begin another turn even if the last one has not ended.")] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Folder for records, log and reports; default: FILE without .yaml, with .turns.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Train, measure, gate and release the next version of a model. A restart continues where it stopped. Exit code 1
    where no version was released."""
    if every and when_feedback:
        raise CommandError("--every and --when-feedback: give one of them.", code=2)
    period = schedule.period_of(every) if every else 0
    source = YamlFile(file)
    wanted = plan.read(source)
    turns = Turns(folder or file.with_suffix(".turns"))
    with turns.locked(), Client() as client:
        work = Improvement(client, wanted, source, turns, quiet=as_json)
        if every:
            if new:
                raise CommandError("--new and --every: each period has a turn of its own.", code=2)
            schedule.repeat(period, lambda number: work.of_period(f"{every}-{number}"))
        elif when_feedback:
            work.by_feedback(when_feedback, new=new)
        else:
            record = work.by_hand(new=new)
            if as_json:
                print_json(record.to_json())
            if record.state is not State.RELEASED:
                raise typer.Exit(1)


class Improvement:
    """The turns of one plan."""

    def __init__(self, client: Client, wanted: Plan, source: YamlFile, turns: Turns, *, quiet: bool) -> None:
        self._client = client
        self._plan = wanted
        self._source = source
        self._turns = turns
        self._quiet = quiet

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
        checks.check(self._client, self._plan, self._source)
        while True:
            latest = self._turns.latest()
            if latest and latest.state is State.RUNNING and not new:
                record = self._same(latest)
            else:
                record = self._begun(wait_for_feedback(self._client, self._plan.model, wanted, latest, self._say))
            new = False
            try:
                self._finished(record)
            except (ApiError, CommandError, Unreachable) as error:
                if isinstance(error, CommandError) and error.code != 1:
                    raise
                stderr.print(str(error), markup=False, soft_wrap=True)
                time.sleep(schedule.RETRY_S)

    def _same(self, record: Record) -> Record:
        """Raises CommandError where the file says something else now."""
        if record.plan != self._plan.digest:
            raise self._source.wrong(
                "",
                f"has changed since turn {record.number} began, which has not ended: undo that, or begin anew by --new",
            )
        self._say(f"Turn {record.number} goes on.")
        return record

    def _begun(self, due: str = "") -> Record:
        now = checks.check(self._client, self._plan, self._source)
        record = self._turns.begin(self._plan.digest, self._plan.model, now.number, due)
        self._say(
            f"Turn {record.number} begins: {now} is to be beaten. Its record and its log are in {self._turns.folder}"
        )
        return record

    def _finished(self, record: Record) -> Record:
        turn = Turn(self._client, self._plan, self._turns, record, quiet=self._quiet)
        try:
            turn.finish()
        except (ApiError, CommandError, Unreachable):
            self._say(f"Turn {record.number} has not ended: the same command goes on with it, --new begins another.")
            raise
        finally:
            if turn.record.state is not State.RUNNING:
                self._report(turn.record)
        self._say(turn.record.sentence)
        return turn.record

    def _report(self, record: Record) -> None:
        """What cannot be shown is said; it changes nothing about the turn."""
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
        if not self._quiet:
            say(line)
        self._turns.log(line)
