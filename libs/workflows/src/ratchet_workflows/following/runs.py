"""A training run, followed to its end."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime

from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_client import Client
from ratchet_client.names import state_name
from ratchet_kit.times import duration
from ratchet_reports import run_words
from ratchet_workflows.errors import WorkflowError
from ratchet_workflows.following.pace import Pace
from ratchet_workflows.progress import SILENT, Progress


def follow(client: Client, run_id: str, progress: Progress = SILENT) -> pb.Run:
    """The run, when it has ended. Raises the client's errors."""
    news = RunNews(run_id)
    goes_on = f"Run {run_id} goes on. Follow it: ratchet runs watch {run_id}"
    with progress.following(news, goes_on) as changed:
        for message in client.runs.watch(run_id):
            news.update(message)
            changed()
    return news.run


def raise_unless_succeeded(run: pb.Run) -> None:
    """Raises WorkflowError."""
    if run.state != pb.Run.STATE_SUCCEEDED:
        raise WorkflowError(
            f"Run {run.id} ended {state_name(run)}: {run.failure.message or 'see ratchet logs trainer'}"
        )


def _phase_seconds(run: pb.Run) -> float:
    """How long it has been in its phase already, by the clocks of both machines."""
    if not run.HasField("phase_time"):
        return 0.0
    return max(0.0, (datetime.now(UTC) - run.phase_time.ToDatetime(tzinfo=UTC)).total_seconds())


def interval(metrics: Mapping[str, float]) -> str:
    """ " (0.3 to 0.5)" of a step's validation; empty where it has none."""
    ends = [metrics[name] for name in ("validation_score_low", "validation_score_high") if name in metrics]
    return f" ({ends[0]:.3f} to {ends[1]:.3f})" if len(ends) == 2 else ""


class RunNews:
    """The news of one run."""

    def __init__(self, run_id: str) -> None:
        self.run = pb.Run(id=run_id)
        self.steps: tuple[pb.Step, ...] = ()
        self.activity = ""
        self.since = time.monotonic()
        self._said = ""
        self._noticed: tuple[pb.Notice, ...] = ()
        self._pace = Pace()

    def update(self, message: pb.WatchRunResponse) -> None:
        self.run = message.run
        by_number = {step.number: step for step in (*self.steps, *message.steps)}
        self.steps = tuple(by_number[number] for number in sorted(by_number))
        if (now := run_words.activity(message.run)) != self.activity:
            self.activity, self.since = now, time.monotonic() - _phase_seconds(message.run)

    def news(self) -> list[str]:
        run, lines = self.run, []
        if self.steps and self._pace.is_due(run.step, run.spec.steps):
            lines.append(f"step {run.step} of {run.spec.steps}{self._measured()}{self.time_left()}")
        notices = [notice for notice in run.notices if notice not in self._noticed]
        lines.extend(f"at step {notice.step}: {notice.message}" for notice in notices)
        self._noticed = tuple(run.notices)
        attempt = f" (attempt {run.attempt})" if run.attempt > 1 else ""
        situation = f"{self.activity.partition(', ')[0]}{attempt}"  # an evaluation says how far it is behind that
        if self.activity and situation != self._said and not self._is_stepping():
            self._said = situation
            lines.append(situation)
        return [f"{run.id}: {line}" for line in lines]

    def _is_stepping(self) -> bool:
        """Between its first step and its last one the steps say enough."""
        begun = bool(self.steps) and self.steps[-1].attempt == self.run.attempt
        return begun and self.run.step < self.run.spec.steps

    def _measured(self) -> str:
        metrics = self.steps[-1].metrics
        first = "reward_mean" if "reward_mean" in metrics else "loss"
        names = {first: first.removesuffix("_mean"), "validation_score": "validation"}
        said = "".join(f", {name} {metrics[key]:.3f}" for key, name in names.items() if key in metrics)
        return f"{said}{interval(metrics)}"

    def time_left(self) -> str:
        """ ", 4.0 s per step, about 3 min left"; empty before that is known."""
        left = self.run.spec.steps - self.run.step
        seconds = run_words.seconds_per_step(self.steps)
        if left <= 0 or seconds is None:
            return ""
        return f", {seconds:.1f} s per step, about {duration(seconds * left)} left"
