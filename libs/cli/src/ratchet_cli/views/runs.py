"""How a training run is followed: what it does, how far it is, how long it will take."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.table import Table

from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Pace, following
from ratchet_cli.terminal.output import sparkline
from ratchet_client import Client
from ratchet_client.names import state_name
from ratchet_kit.times import duration
from ratchet_reports import run_words

METRICS = ("kl", "entropy", "clip_fraction", "grad_norm", "logprob_diff_mean", "time_step_s")


def follow(client: Client, run_id: str, *, quiet: bool = False, log: Callable[[str], None] | None = None) -> pb.Run:
    """Shows a run until it has ended, and returns it as it ended. Interrupted, it says how to go on."""
    view = RunView(run_id)
    goes_on = f"Run {run_id} goes on. Follow it: ratchet runs watch {run_id}"
    with following(view, quiet=quiet, goes_on=goes_on, log=log) as changed:
        for message in client.runs.watch(run_id):
            view.update(message)
            changed()
    return view.run


def raise_unless_succeeded(run: pb.Run) -> None:
    if run.state != pb.Run.STATE_SUCCEEDED:
        raise CommandError(f"Run {run.id} ended {state_name(run)}: {run.failure.message or 'see ratchet logs trainer'}")


def _phase_seconds(run: pb.Run) -> float:
    """How long it has been in its phase already, by the clocks of both machines."""
    if not run.HasField("phase_time"):
        return 0.0
    return max(0.0, (datetime.now(UTC) - run.phase_time.ToDatetime(tzinfo=UTC)).total_seconds())


def _interval(metrics: Mapping[str, float]) -> str:
    ends = [metrics[name] for name in ("validation_score_low", "validation_score_high") if name in metrics]
    return f" ({ends[0]:.3f} to {ends[1]:.3f})" if len(ends) == 2 else ""


class RunView:
    """A View of one run."""

    def __init__(self, run_id: str) -> None:
        self.run = pb.Run(id=run_id)
        self._steps: tuple[pb.Step, ...] = ()
        self._activity = ""
        self._since = time.monotonic()
        self._said = ""
        self._noticed: tuple[pb.Notice, ...] = ()
        self._pace = Pace()

    def update(self, message: pb.WatchRunResponse) -> None:
        self.run = message.run
        by_number = {step.number: step for step in (*self._steps, *message.steps)}
        self._steps = tuple(by_number[number] for number in sorted(by_number))
        if (now := run_words.activity(message.run)) != self._activity:
            self._activity, self._since = now, time.monotonic() - _phase_seconds(message.run)

    def panel(self) -> RenderableType:
        run, steps = self.run, self._steps
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_row("run", f"{run.id}  {state_name(run)}" + (f"  attempt {run.attempt}" if run.attempt > 1 else ""))
        if self._activity:
            table.add_row("now", f"{self._activity}, {duration(time.monotonic() - self._since)}")
        table.add_row("step", f"{run.step} of {run.spec.steps}{self._time_left()}")
        rewards = [step.metrics["reward_mean"] for step in steps if "reward_mean" in step.metrics]
        if rewards:
            table.add_row("reward", f"{sparkline(rewards)}  {rewards[-1]:.3f}")
        losses = [step.metrics["loss"] for step in steps if "loss" in step.metrics and not rewards]
        if losses:
            table.add_row("loss", f"{sparkline(losses, min(losses), max(losses))}  {losses[-1]:.3f}")
        validated = [step for step in steps if "validation_score" in step.metrics]
        if validated:
            scores = "  ".join(f"{step.number}: {step.metrics['validation_score']:.3f}" for step in validated[-6:])
            table.add_row("validation", f"{scores}{_interval(validated[-1].metrics)}")
        if steps:
            metrics = steps[-1].metrics
            table.add_row("", "  ".join(f"{key} {metrics[key]:.3g}" for key in METRICS if key in metrics))
        if run.notices:
            table.add_row("notice", run.notices[-1].message)
        if run.platform_faults:
            table.add_row("masked", f"{run.platform_faults} samples that the platform failed")
        return table

    def news(self) -> list[str]:
        run, lines = self.run, []
        if self._steps and self._pace.is_due(run.step, run.spec.steps):
            lines.append(f"step {run.step} of {run.spec.steps}{self._measured()}{self._time_left()}")
        notices = [notice for notice in run.notices if notice not in self._noticed]
        lines.extend(f"at step {notice.step}: {notice.message}" for notice in notices)
        self._noticed = tuple(run.notices)
        attempt = f" (attempt {run.attempt})" if run.attempt > 1 else ""
        situation = f"{self._activity}{attempt}"
        if self._activity and situation != self._said and not self._is_stepping():
            self._said = situation
            lines.append(situation)
        return [f"{run.id}: {line}" for line in lines]

    def _is_stepping(self) -> bool:
        """Between its first step and its last one the steps say enough."""
        begun = bool(self._steps) and self._steps[-1].attempt == self.run.attempt
        return begun and self.run.step < self.run.spec.steps

    def _measured(self) -> str:
        metrics = self._steps[-1].metrics
        first = "reward_mean" if "reward_mean" in metrics else "loss"
        names = {first: first.removesuffix("_mean"), "validation_score": "validation"}
        said = "".join(f", {name} {metrics[key]:.3f}" for key, name in names.items() if key in metrics)
        return f"{said}{_interval(metrics)}"

    def _time_left(self) -> str:
        left = self.run.spec.steps - self.run.step
        seconds = run_words.seconds_per_step(self._steps)
        if left <= 0 or seconds is None:
            return ""
        return f", {seconds:.1f} s per step, about {duration(seconds * left)} left"
