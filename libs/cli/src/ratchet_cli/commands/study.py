"""`ratchet study`: several seeds as one run, ablations, and searches, from a file."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ratchet_cli.terminal.output import JsonFlag, print_json, print_table, say
from ratchet_cli.views import evaluations
from ratchet_client import Client
from ratchet_kit.statistics import Estimate, estimate_from_proto
from ratchet_kit.times import duration
from ratchet_reports.run_words import reward
from ratchet_workflows.notation.yaml_files import YamlFile
from ratchet_workflows.studies import checks
from ratchet_workflows.studies.cells import Cell
from ratchet_workflows.studies.plan import DEFAULT, Plan, Variant
from ratchet_workflows.studies.ranges import Search
from ratchet_workflows.studies.records import StudyFolder
from ratchet_workflows.studies.results import Reach, Result, StudyResults, Summary, reaches, summaries
from ratchet_workflows.studies.work import Work


def study(
    file: Annotated[Path, typer.Option("--file", "-f", help="YAML file with what to train, vary and measure.")],
    new: Annotated[bool, typer.Option("--new", help="Begin anew even if the study was begun before.")] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Folder for log, results and report; default: FILE without .yaml, with .study.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Train variants with several seeds, or search for a setting, and compare them on held-out problems. A restart
    continues where it stopped. Exit code 1 if a run has no score."""
    source = YamlFile(file)
    plan = Plan(source)
    kept = StudyFolder(folder or file.with_suffix(".study"))
    if plan.search:
        from ratchet_workflows.studies import (
            search as search,  # raises CommandError without Optuna, before anything begins
        )
    with kept.locked(), Client() as client:
        found = Study(client, plan, source, kept, quiet=as_json).finish(new=new)
    if as_json:
        print_json(found.to_json())
    else:
        show(found, kept)
    if any(one.fault for one in found.results):
        raise typer.Exit(1)


UNKNOWN = (
    "One training seed cannot show whether it beats the default: scores differ from seed to seed. Train both with two "
    "or more seeds (seeds: 3)."
)


class Study:
    """One study, from its file to its report."""

    def __init__(self, client: Client, plan: Plan, source: YamlFile, kept: StudyFolder, *, quiet: bool) -> None:
        self._client = client
        self._plan = plan
        self._source = source
        self._kept = kept
        self._quiet = quiet

    def finish(self, *, new: bool) -> StudyResults:
        record = None if new else self._kept.record()
        if record is None:
            known = checks.bases(self._client, self._plan)
            taken = checks.check(self._client, self._plan, self._source, known)
            record = self._kept.begin(self._plan.digest, known)
            self._say(f"The study begins. Its log is in {self._kept.folder}")
        elif record.plan != self._plan.digest:
            raise self._source.wrong("", "has changed since the study began: undo that, or begin anew by --new")
        else:
            self._say(f"The study of {record.begin_time} goes on.")
            taken = checks.check(self._client, self._plan, self._source, record.bases)
        work = Work(self._client, self._plan, record, quiet=self._quiet, log=self._kept.log)
        if self._plan.search:
            found = self._search(work, self._plan.search, checks.values(taken, self._plan.search))
        else:
            found = self._results(self._measured(work, self._plan.variants))
        self._write(found)
        return found

    def _measured(self, work: Work, variants: list[Variant]) -> list[Cell]:
        """Seed by seed, so that a study that is cut off has the same seeds of each variant."""
        cells = [Cell(variant, seed) for seed in self._plan.seeds for variant in variants]
        work.finish("runs", iter(cells), len(cells))
        order = {variant.name: place for place, variant in enumerate(variants)}
        return sorted(cells, key=lambda cell: order[cell.variant.name])

    def _search(self, work: Work, search: Search, default: dict[str, object]) -> StudyResults:
        from ratchet_workflows.studies.search import Trials

        trials = Trials(self._client, self._plan, search, self._kept.trials, default)
        work.finish("trials", trials.cells(), search.trials, trials.looked, trials.ended)
        best = trials.best()
        variants = [self._plan.variant(DEFAULT, {})]
        if best is not None and best.name != DEFAULT:
            variants.append(best)
            self._say(f"The best of the trials on validation: {best.name}. It is measured against the default.")
        cells = self._measured(work, variants)
        results = self._results(cells)
        spent = f"{len(trials.to_json())} trials, {trials.spent('tokens'):,.0f} tokens"
        notes = ["The search ended since its budget was spent."] if trials.is_spent else []
        return StudyResults(
            title=results.title,
            create_time=results.create_time,
            results=results.results,
            summaries=results.summaries,
            reaches=results.reaches,
            settings=results.settings,
            notes=[*results.notes, *notes],
            trials=trials.to_json(),
            verdict=f"{self._verdict(results, cells)} ({spent})",
        )

    def _verdict(self, results: StudyResults, cells: list[Cell]) -> str:
        if len(results.summaries) < 2:
            return "No setting that was tried is better on validation than the default."
        default, best = results.summaries
        if default.pass_at_1 is None or best.pass_at_1 is None:
            return f"{best.name} was the best on validation; with a score missing, nothing can be compared."
        said = f"{best.name} scores {best.pass_at_1:.3f} on the held-out problems, the default {default.pass_at_1:.3f}"
        if best.difference is None:
            of_one = self._by_problem(cells)
            gap = f": {_signed(of_one)} over these problems, of one training seed" if of_one else ""
            return f"{said}{gap}. {UNKNOWN}"
        word = "It beats the default." if best.difference.low > 0 else "This does not prove that it beats the default."
        return f"{said}: {_signed(best.difference)}, paired by seed over {best.runs} seeds. {word}"

    def _by_problem(self, cells: list[Cell]) -> Estimate | None:
        measured = [cell.evaluation for cell in cells if cell.evaluation and not cell.fault]
        if len(measured) != 2:
            return None
        return estimate_from_proto(self._client.evaluations.compare(measured[0].id, measured[1].id).difference)

    def _results(self, cells: list[Cell]) -> StudyResults:
        results = [Result.of(cell) for cell in cells]
        notes = []
        if self._plan.train.HasField("max_tokens"):
            short = [f"{one.variant}, seed {one.seed}" for one in results if one.ended_by == "steps"]
            if short:
                ended = "ended by their steps before their tokens: that is not on equal tokens; raise train.steps"
                notes.append(f"{'; '.join(short)}: {ended}.")
        elif len({one.variant for one in results}) > 1:
            notes.append("The variants are compared on equal steps; train.max_tokens makes it equal tokens.")
        run = next((cell.run for cell in cells if cell.run), None)
        settings = {
            "trained on": self._plan.train.problems.name,
            "measured on": evaluations.names(cells[0].evaluation) if cells[0].evaluation else "",
            "reward": reward(run.spec.reward) if run else "",
            "tokens of a run": f"{self._plan.train.max_tokens:,}" if self._plan.train.HasField("max_tokens") else "",
            "seeds": ", ".join(map(str, self._plan.seeds)),
        }
        return StudyResults(
            title=f"Study {self._kept.folder.stem}",
            create_time=datetime.now(UTC).isoformat(timespec="seconds"),
            results=results,
            summaries=summaries(results),
            reaches=reaches(results),
            settings={name: value for name, value in settings.items() if value},
            notes=notes,
        )

    def _write(self, found: StudyResults) -> None:
        """A page that cannot be made is said; it changes nothing about the study."""
        self._kept.save_results(found.to_json())
        try:
            from ratchet_workflows.studies import report  # matplotlib: only here

            report.write(found, self._kept.page)
        except (OSError, ImportError) as error:
            self._say(f"The report cannot be made: {error}")
        if found.verdict:
            self._kept.log(found.verdict)

    def _say(self, line: str) -> None:
        if not self._quiet:
            say(line)
        self._kept.log(line)


def show(found: StudyResults, kept: StudyFolder) -> None:
    print_table(
        ("", "runs", "pass@1", f"minus {found.summaries[0].name}", "tokens", "steps", "time", "memory"),
        [_row(one) for one in found.summaries],
        right=("runs", "tokens", "steps", "time", "memory"),
    )
    if found.reaches:
        first = found.reaches.variants[0].name
        say(f"Tokens to a validation score of {found.reaches.score:.3f}, with which {first} ends:")
        print_table(("", "runs", "tokens", f"minus {first}"), [_reach(one) for one in found.reaches.variants])
    for one in found.results:
        if one.fault:
            say(f"{one.variant}, seed {one.seed}: {one.fault}")
    for note in found.notes:
        say(note)
    if found.verdict:
        say(found.verdict)
    say(f"Report: {kept.page}   as JSON: {kept.results}")


def _row(one: Summary) -> tuple[object, ...]:
    scored = "-" if one.pass_at_1 is None else f"{one.pass_at_1:.3f}"
    return (
        one.name,
        one.runs if one.runs == one.wanted else f"{one.runs} of {one.wanted}",
        f"{scored} [{one.band.low:.3f}, {one.band.high:.3f}]" if one.band else scored,
        _signed(one.difference) if one.difference else "",
        f"{one.tokens:,.0f}",
        f"{one.steps:.1f}",
        duration(one.seconds),
        f"{one.memory_bytes / 2**30:.2f} GiB",
    )


def _reach(one: Reach) -> tuple[object, ...]:
    mean = "-" if one.mean is None else f"{one.mean:,.0f}"
    band = f" [{one.band.low:,.0f}, {one.band.high:,.0f}]" if one.band else ""
    of = one.difference
    difference = f"{of.value:+,.0f} [{of.low:+,.0f}, {of.high:+,.0f}]" if of else ""
    return one.name, f"{one.reached} of {len(one.tokens)}", mean + band, difference


def _signed(of: Estimate) -> str:
    return f"{of.value:+.3f} [{of.low:+.3f}, {of.high:+.3f}]"
