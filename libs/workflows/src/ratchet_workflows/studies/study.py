"""Several seeds as one run, ablations, and searches."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePath

from ratchet_client import Client
from ratchet_kit.statistics import Estimate, estimate_from_proto
from ratchet_reports.gather import set_names
from ratchet_reports.run_words import reward
from ratchet_workflows.kept import Kept
from ratchet_workflows.notation.fields import Source
from ratchet_workflows.progress import Progress
from ratchet_workflows.studies import checks
from ratchet_workflows.studies.cells import Cell
from ratchet_workflows.studies.plan import DEFAULT, Plan, Variant
from ratchet_workflows.studies.ranges import Search
from ratchet_workflows.studies.records import Record
from ratchet_workflows.studies.results import Result, StudyResults, reaches, summaries
from ratchet_workflows.studies.work import Work

UNKNOWN = (
    "One training seed cannot show whether it beats the default: scores differ from seed to seed. Train both with two "
    "or more seeds (seeds: 3)."
)


def ensure_optuna() -> None:
    """Raises WorkflowError where it is missing: before anything begins."""
    from ratchet_workflows.studies import search as search


class Study:
    """One study, from its plan to its results."""

    def __init__(self, client: Client, source: Source, kept: Kept, progress: Progress, name: str) -> None:
        """`name`: for people. Raises UsageError for an invalid plan."""
        self._client = client
        self._plan = Plan(source)
        self._source = source
        self._kept = kept
        self._progress = progress
        self._name = name
        self._record = Record.of_json({"key": kept.id, "bases": {}, **kept.read()})

    def finish(self) -> StudyResults:
        """Trains variants with several seeds, or searches for a setting, and compares them on held-out problems. One
        that was cut off goes on, and so does one of which a run failed.

        Runs that have no score are no error: their results have a `fault`. Raises UsageError for an invalid plan,
        WorkflowError for a search without Optuna, ApiError for what the platform refuses, Unreachable when nothing
        answers for ten minutes.
        """
        if self._plan.search:
            ensure_optuna()
        if not self._record.bases:
            self._note(bases=checks.bases(self._client, self._plan))
        taken = checks.check(self._client, self._plan, self._source, self._record.bases)
        work = Work(self._client, self._plan, self._record, progress=self._progress, begun=self._begun)
        if self._plan.search:
            found = self._search(work, self._plan.search, checks.values(taken, self._plan.search))
        else:
            found = self._results(self._measured(work, self._plan.variants))
        self._note(results=found.to_json(points=False))
        return found

    def _note(self, **changes: object) -> None:
        self._record = replace(self._record, **changes)  # type: ignore[arg-type]
        self._kept.save(self._record.to_json())

    def _begun(self, cells: Sequence[Cell]) -> None:
        """Notes the runs and evaluations of these, where there are new ones."""
        noted = {one["name"]: one for one in self._record.cells}
        for cell in cells:
            run, evaluation = cell.run.id if cell.run else "", cell.evaluation.id if cell.evaluation else ""
            noted[cell.name] = {"name": cell.name, "run": run, "evaluation": evaluation}
        if (now := tuple(noted.values())) != tuple(self._record.cells):
            self._note(cells=now)

    def _measured(self, work: Work, variants: list[Variant]) -> list[Cell]:
        """Seed by seed, so that a study that is cut off has the same seeds of each variant."""
        cells = [Cell(variant, seed) for seed in self._plan.seeds for variant in variants]
        work.finish("runs", iter(cells), len(cells))
        order = {variant.name: place for place, variant in enumerate(variants)}
        return sorted(cells, key=lambda cell: order[cell.variant.name])

    def _search(self, work: Work, search: Search, default: dict[str, object]) -> StudyResults:
        from ratchet_workflows.studies.search import Journal, Trials

        journal = Journal(self._record.journal, lambda entries: self._note(journal=entries))
        trials = Trials(self._client, self._plan, search, journal, default)
        work.finish("trials", trials.cells(), search.trials, trials.looked, trials.ended)
        best = trials.best()
        variants = [self._plan.variant(DEFAULT, {})]
        if best is not None and best.name != DEFAULT:
            variants.append(best)
            self._progress.say(
                f"The best of the trials on validation: {best.name}. It is measured against the default."
            )
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
            gap = f": {signed(of_one)} over these problems, of one training seed" if of_one else ""
            return f"{said}{gap}. {UNKNOWN}"
        word = "It beats the default." if best.difference.low > 0 else "This does not prove that it beats the default."
        return f"{said}: {signed(best.difference)}, paired by seed over {best.runs} seeds. {word}"

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
            "measured on": set_names(cells[0].evaluation) if cells[0].evaluation else "",
            "reward": reward(run.spec.reward) if run else "",
            "tokens of a run": f"{self._plan.train.max_tokens:,}" if self._plan.train.HasField("max_tokens") else "",
            "seeds": ", ".join(map(str, self._plan.seeds)),
        }
        return StudyResults(
            title=f"Study {PurePath(self._name).stem}",
            create_time=datetime.now(UTC).isoformat(timespec="seconds"),
            results=results,
            summaries=summaries(results),
            reaches=reaches(results),
            settings={name: value for name, value in settings.items() if value},
            notes=notes,
        )


def signed(of: Estimate) -> str:
    """ "+0.020 [-0.010, +0.050]"."""
    return f"{of.value:+.3f} [{of.low:+.3f}, {of.high:+.3f}]"
