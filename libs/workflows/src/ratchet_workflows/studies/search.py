"""A search: Optuna proposes settings and ends trials early; each trial is a run of Ratchet.

Optuna's journal has every trial, its settings and its validation scores, so that a search that was killed goes on: a
trial that was under way is asked for again, under the request id that its settings make.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ratchet_client import Client
from ratchet_workflows.errors import WorkflowError
from ratchet_workflows.studies.cells import Cell
from ratchet_workflows.studies.plan import DEFAULT, Plan, Variant
from ratchet_workflows.studies.ranges import Range, Search

try:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import BaseJournalBackend
    from optuna.trial import Trial, TrialState
except ImportError as error:
    raise WorkflowError("A search needs Optuna: pip install optuna, beside this command.") from error

NAME = "ratchet"
SEED = 0
"""The seed of all trials: they differ by their settings alone."""
IS_DEFAULT, IS_STOPPING = "default", "stopping"
"""Attributes of a trial."""


class Journal(BaseJournalBackend):
    """Optuna's journal, kept with the study. `keep` gets all of it whenever something is added."""

    def __init__(
        self, entries: Sequence[Mapping[str, Any]], keep: Callable[[Sequence[Mapping[str, Any]]], None]
    ) -> None:
        self._entries = [dict(entry) for entry in entries]
        self._keep = keep

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        return self._entries[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        self._entries += logs
        self._keep(tuple(self._entries))


class Trials:
    """`default`: the values that the run has where the search changes nothing, as far as they are known."""

    def __init__(
        self, client: Client, plan: Plan, search: Search, journal: "Journal", default: Mapping[str, object]
    ) -> None:
        self._client = client
        self._plan = plan
        self._search = search
        self._open: dict[Cell, Trial] = {}
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is experimental in Optuna
            self._storage = JournalStorage(journal)
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=NAME,
                load_if_exists=True,
                direction="maximize",
                pruner=_pruner(search),
            )
            # otherwise a search that goes on would propose once more what it began with
            begun = len(self._study.trials)
            self._study.sampler = optuna.samplers.TPESampler(seed=search.seed + begun, constant_liar=plan.at_once > 1)
        held = all(path in default and one.holds(default[path]) for path, one in search.ranges.items())
        if held and not begun:
            self._study.enqueue_trial(dict(default), user_attrs={IS_DEFAULT: True})

    def cells(self) -> Iterator[Cell]:
        """Trials that were under way, then new ones until there are enough or the budget is spent."""
        for frozen in self._study.get_trials(states=(TrialState.RUNNING,)):
            yield self._cell(Trial(self._study, self._id_of(frozen.number)))
        while not self.is_spent and self._begun() < self._search.trials:
            yield self._cell(self._study.ask())

    def _id_of(self, number: int) -> int:
        study = self._storage.get_study_id_from_name(NAME)
        return self._storage.get_trial_id_from_study_id_trial_number(study, number)

    def looked(self, cell: Cell) -> None:
        """Reports what is new of a trial, ends it early where Optuna says so, and closes one that has ended."""
        trial = self._open[cell]
        reported = self._frozen(trial).intermediate_values
        for step in cell.steps:
            if "validation_score" not in step.metrics or step.number in reported:
                continue
            trial.report(step.metrics["validation_score"], step.number)
            if self._search.asha and not cell.has_ended and not cell.is_trained and trial.should_prune():
                trial.set_user_attr(IS_STOPPING, True)
                cell.stop_early(self._client)
                break
        if cell.has_ended:
            self._close(cell, trial)

    def _close(self, cell: Cell, trial: Trial) -> None:
        run = cell.run
        if run is not None:
            seconds = max(0.0, (run.end_time.ToMilliseconds() - run.start_time.ToMilliseconds()) / 1e3)
            for name, value in (("run", run.id), ("tokens", run.tokens), ("steps", run.step), ("seconds", seconds)):
                trial.set_user_attr(name, value)
        was_stopped = cell.stopped_early or trial.user_attrs.get(IS_STOPPING)
        score = run.best_checkpoint if run is not None and cell.is_trained else None
        if score is not None and score.HasField("validation_score"):
            self._study.tell(trial, score.validation_score)
        elif was_stopped and not cell.is_trained:
            self._study.tell(trial, state=TrialState.PRUNED)
        else:
            trial.set_user_attr("fault", cell.fault or "it has no validation score")
            self._study.tell(trial, state=TrialState.FAIL)
        del self._open[cell]

    def _cell(self, trial: Trial) -> Cell:
        settings = {path: _suggested(trial, path, one) for path, one in self._search.ranges.items()}
        is_default = trial.user_attrs.get(IS_DEFAULT)
        cell = Cell(self._plan.variant(DEFAULT, {}) if is_default else self._plan.trial(settings), SEED, measured=False)
        self._open[cell] = trial
        return cell

    def _frozen(self, trial: Trial) -> Any:
        return self._study.get_trials(deepcopy=False)[trial.number]

    def _begun(self) -> int:
        """Without those that wait to be asked for."""
        return sum(one.state is not TrialState.WAITING for one in self._study.trials)

    @property
    def ended(self) -> int:
        return sum(one.state.is_finished() for one in self._study.trials)

    def spent(self, name: str) -> float:
        """ "tokens", "steps" or "seconds" of the trials that have ended."""
        return sum(float(one.user_attrs.get(name, 0)) for one in self._study.trials)

    @property
    def is_spent(self) -> bool:
        budget = self._search.budget
        limits = {"tokens": budget.tokens, "steps": budget.steps, "seconds": budget.hours and budget.hours * 3600}
        return any(limit is not None and self.spent(name) >= limit for name, limit in limits.items())

    def best(self) -> Variant | None:
        """The trial with the best validation among those that did all their steps; None without one."""
        done = [one for one in self._study.trials if one.state is TrialState.COMPLETE]
        best = max(done, key=lambda one: (one.value or 0.0, -one.number), default=None)
        if best is None:
            return None
        return self._plan.variant(DEFAULT, {}) if best.user_attrs.get(IS_DEFAULT) else self._plan.trial(best.params)

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {
                "number": one.number,
                "settings": dict(one.params),
                "state": one.state.name,
                "default": bool(one.user_attrs.get(IS_DEFAULT)),
                "validation": one.value
                if one.state is TrialState.COMPLETE
                else one.intermediate_values.get(max(one.intermediate_values, default=0)),
                "fault": one.user_attrs.get("fault", ""),
                **{name: one.user_attrs.get(name, 0) for name in ("tokens", "steps", "seconds")},
                "run": one.user_attrs.get("run", ""),
            }
            for one in self._study.trials
        ]


def _pruner(search: Search) -> optuna.pruners.BasePruner:
    if search.asha is None:
        return optuna.pruners.NopPruner()
    return optuna.pruners.SuccessiveHalvingPruner(
        min_resource=search.asha.min_steps, reduction_factor=search.asha.factor
    )


def _suggested(trial: Trial, path: str, of: Range) -> Any:
    if of.kind == "choice":
        return trial.suggest_categorical(path, of.choices)
    suggest: Callable[..., Any] = trial.suggest_int if of.whole else trial.suggest_float
    return suggest(path, of.low, of.high, log=of.kind == "loguniform")
