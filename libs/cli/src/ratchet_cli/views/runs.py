"""How a training run is followed: what it does, how far it is, how long it will take."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.table import Table

from ratchet.common.v1 import priority_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Pace, following
from ratchet_cli.terminal.output import sparkline
from ratchet_client import Client
from ratchet_client.names import model_name, state_name
from ratchet_kit.times import duration

PHASES = {
    pb.Run.PHASE_SUBMITTING: "starting the job and Ray",
    pb.Run.PHASE_LOADING_MODEL: "loading the model on the training ranks",
    pb.Run.PHASE_LOADING_POLICY: "loading the policy in the rollout service",
    pb.Run.PHASE_GENERATING: "sampling and grading completions",
    pb.Run.PHASE_UPDATING: "updating the weights",
    pb.Run.PHASE_VALIDATING: "validating",
    pb.Run.PHASE_SAVING: "writing a checkpoint",
    pb.Run.PHASE_REGISTERING: "registering the best checkpoint",
}
RECENT_STEPS, LEAST_STEPS = 10, 3
"""The estimate of the time left is from so many."""
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


def plugin(one: pb.Plugin) -> str:
    kind = pb.PluginKind.Name(one.kind).removeprefix("PLUGIN_KIND_").lower()
    return f"{kind} {one.name} of {one.package} {one.version}, {one.digest}"


def form(value: pb.PromptForm.ValueType) -> str:
    """How problems are put; "chat" in a run of old."""
    return pb.PromptForm.Name(value or pb.PROMPT_FORM_CHAT).removeprefix("PROMPT_FORM_").lower()


def stage(one: pb.CurriculumStage) -> str:
    """What it selects, and when it ends."""
    low = f" from {one.min_difficulty}" if one.HasField("min_difficulty") else ""
    high = f" up to {one.max_difficulty}" if one.HasField("max_difficulty") else ""
    selected = [f"difficulty{low}{high}"] if low or high else []
    selected += [f"tagged {' or '.join(one.tags)}"] if one.tags else []
    ends = [f"{one.steps} steps"] if one.HasField("steps") else []
    ends += [f"a pass rate of {one.pass_rate:g}"] if one.HasField("pass_rate") else []
    return f"{', '.join(selected) or 'all problems'}; to {' or '.join(ends) or 'the end of the run'}"


def algorithm(spec: pb.RunSpec) -> str:
    name, hyper = pb.Algorithm.Name(spec.algorithm).removeprefix("ALGORITHM_").lower(), spec.hyperparameters
    return f"{name}, LoRA of rank {hyper.lora_rank} (alpha {hyper.lora_alpha})" if hyper.lora_rank else name


def reward(spec: pb.RewardSpec) -> str:
    """In a line; empty where there is none."""
    if not spec.components:
        return spec.name
    if len(spec.components) == 1:
        return _component(spec.components[0])
    combination = pb.RewardSpec.Combination.Name(spec.combination).removeprefix("COMBINATION_").lower()
    return f"{combination} of {', '.join(map(_component, spec.components))}"


def _component(component: pb.RewardComponent) -> str:
    weight = f" {component.weight:g}" if component.HasField("weight") else ""
    if component.schedule:
        weight = " " + " to ".join(f"{point.weight:g} at step {point.step}" for point in component.schedule)
    veto = f" (vetoed below {component.veto_below:g})" if component.HasField("veto_below") else ""
    number = f"@{component.version}" if component.version else ""
    scored_by = f" by {model_name(component.model)}" if component.HasField("model") else ""
    return f"{component.name}{number}{weight}{scored_by}{veto}"


def raise_unless_succeeded(run: pb.Run) -> None:
    if run.state != pb.Run.STATE_SUCCEEDED:
        raise CommandError(f"Run {run.id} ended {state_name(run)}: {run.failure.message or 'see ratchet logs trainer'}")


def activity(run: pb.Run) -> str:
    """What a run does now, in words; empty when it has ended."""
    match run.state:
        case pb.Run.STATE_QUEUED:
            return f"waiting for {run.waits_for or 'a worker of the trainer'}"
        case pb.Run.STATE_RUNNING if run.preempted_by:
            return f"making room for {run.preempted_by} after this step"
        case pb.Run.STATE_STARTING | pb.Run.STATE_RUNNING:
            return PHASES.get(run.phase, "starting" if run.state == pb.Run.STATE_STARTING else "training")
    return ""


def priority(run: pb.Run) -> str:
    return (
        priority_pb2.Priority.Name(run.spec.priority or priority_pb2.PRIORITY_NORMAL).removeprefix("PRIORITY_").lower()
    )


def waits(run: pb.Run) -> str:
    """What a queued run waits for, or for which run one makes room; empty for any other."""
    return activity(run) if run.waits_for or (run.preempted_by and run.state == pb.Run.STATE_RUNNING) else ""


def memory(run: pb.Run) -> str:
    """What training was expected to take, and how that was made to fit."""
    hyper = run.spec.hyperparameters
    expected = f"about {run.forecast.peak_bytes / 2**30:.1f} GiB" if run.HasField("forecast") else "not known"
    if run.forecast.HasField("limit_bytes"):
        expected += f" of {run.forecast.limit_bytes / 2**30:.1f}"
    tokens = max(hyper.micro_batch_tokens >> run.out_of_memory, hyper.max_prompt_tokens + hyper.max_response_tokens)
    twice = ", activations made a second time" if hyper.gradient_checkpointing or run.out_of_memory else ""
    seconds = math.ceil(run.forecast.step_time.ToTimedelta().total_seconds())
    time = f", at most about {seconds} s a step" if run.forecast.HasField("step_time") else ""
    return f"{expected}{time}, in passes of {tokens} tokens{twice}"


def tokens(run: pb.Run) -> str:
    """That it has trained on, of those that it may."""
    return f"{run.tokens:,}" + (f" of {run.spec.max_tokens:,}" if run.spec.HasField("max_tokens") else "")


def seconds_per_step(steps: Sequence[pb.Step]) -> float | None:
    """By the times of the last steps, so with validation and checkpoints; None before the third of an attempt, whose
    first ones load and compile."""
    recent = [step for step in steps if step.attempt == steps[-1].attempt][-RECENT_STEPS:]
    if len(recent) < LEAST_STEPS:
        return None
    spent = recent[-1].create_time.ToDatetime() - recent[0].create_time.ToDatetime()
    return spent.total_seconds() / (recent[-1].number - recent[0].number)


def _phase_seconds(run: pb.Run) -> float:
    """How long it has been in its phase already, by the clocks of both machines."""
    if not run.HasField("phase_time"):
        return 0.0
    return max(0.0, (datetime.now(UTC) - run.phase_time.ToDatetime(tzinfo=UTC)).total_seconds())


def score(checkpoint: pb.Checkpoint) -> str:
    """Of its validation, with the interval where it has one."""
    if not checkpoint.HasField("validation_score"):
        return ""
    interval = checkpoint.validation
    between = f" ({interval.low:.3f} to {interval.high:.3f})" if checkpoint.HasField("validation") else ""
    return f"  {checkpoint.validation_score:.3f}{between}"


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
        if (now := activity(message.run)) != self._activity:
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
        seconds = seconds_per_step(self._steps)
        if left <= 0 or seconds is None:
            return ""
        return f", {seconds:.1f} s per step, about {duration(seconds * left)} left"
