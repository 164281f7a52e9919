"""The news of a study: a line for each run."""

from collections.abc import Sequence

from ratchet.eval.v1 import eval_pb2
from ratchet_reports import run_words
from ratchet_workflows.following.pace import Pace
from ratchet_workflows.studies.cells import Cell


class StudyNews:
    """The cells that have begun, of `total` at most; `already` of them ended in an earlier command."""

    def __init__(self, title: str, total: int, already: int = 0) -> None:
        self.already = already
        self.cells: list[Cell] = []
        self.title = title
        self.total = total
        self._paces: dict[Cell, Pace] = {}
        self._said: dict[Cell, str] = {}

    def news(self) -> list[str]:
        lines = []
        for place, cell in enumerate(self.cells):
            number = f"{self.already + place + 1} of {self.total}: {cell.name}"
            if cell.run is None and not cell.fault:
                continue
            word = _word(cell)
            pace = self._paces.setdefault(cell, Pace())
            is_further = word == "training" and cell.run and pace.is_due(cell.run.step, cell.run.spec.steps)
            if word != self._said.get(cell) or is_further:
                self._said[cell] = word
                lines.append(f"{number}: {situation(cell)}")
        return lines


def _word(cell: Cell) -> str:
    if cell.fault:
        return "failed"
    if cell.stopped_early:
        return "stopped early"
    if cell.has_ended:
        return "done"
    if cell.is_trained:
        return "measuring"
    return "training" if cell.steps else "starting"


def situation(cell: Cell) -> str:
    """How far a run is, in a line."""
    run = cell.run
    at = f"step {run.step} of {run.spec.steps}, {run_words.tokens(run)} tokens" if run else ""
    match _word(cell):
        case "failed":
            return f"{cell.fault}{f' ({run.id})' if run and run.id not in cell.fault else ''}"
        case "stopped early":
            return f"stopped early at {at}{_validation(cell)}"
        case "done":
            return f"done, {at}{_validation(cell)}{_score(cell.evaluation)}"
        case "measuring":
            return f"measuring, {at}{_validation(cell)}"
        case "training":
            return f"{at}{_reward(cell.steps)}{_validation(cell)}"
    return f"{run_words.activity(run) or 'starting'} ({run.id})" if run else "starting"


def _reward(steps: Sequence[object]) -> str:
    metrics = getattr(steps[-1], "metrics", {})
    name = "reward_mean" if "reward_mean" in metrics else "loss"
    return f", {name.removesuffix('_mean')} {metrics[name]:.3f}" if name in metrics else ""


def _validation(cell: Cell) -> str:
    scores = [step.metrics["validation_score"] for step in cell.steps if "validation_score" in step.metrics]
    return f", validation {scores[-1]:.3f}" if scores else ""


def _score(evaluation: eval_pb2.Evaluation | None) -> str:
    for row in evaluation.pass_at_k if evaluation else ():
        if row.k == 1:
            return f", pass@1 {row.estimate.value:.3f} [{row.estimate.low:.3f}, {row.estimate.high:.3f}]"
    return ""
