"""How a training run is shown: what it is made of, what it does, how far it is, how long it will take."""

import time
from collections.abc import Iterator, Sequence
from statistics import fmean

from rich.console import RenderableType
from rich.table import Table

from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_cli.terminal.output import sparkline
from ratchet_client.names import state_name, version_name
from ratchet_kit.times import duration
from ratchet_reports import run_words
from ratchet_workflows.following.runs import RunNews, interval

CURVES = {
    "reward_mean": "reward",
    "validation_score": "validation",
    "loss": "loss",
    "kl": "KL",
    "entropy": "entropy",
    "response_tokens_mean": "tokens of an answer",
    "response_clip_ratio": "answers cut off",
    "groups_without_signal": "groups without spread",
    "grad_norm": "gradient's norm",
    "time_step_s": "seconds of a step",
    "time_generate_s": "  sampling, grading",
    "time_update_s": "  updating",
    "time_sync_s": "  sending weights",
}
"""The metrics that `runs show` has a line for, and what it calls them."""
WIDTH = 40
METRICS = ("kl", "entropy", "clip_fraction", "grad_norm", "logprob_diff_mean", "time_step_s")


def summary(run: pb.Run) -> str:
    """Its state, how far it came, and what became of it or what it waits for, in one line."""
    urgency = run_words.priority(run)
    words = [state_name(run), f"{run.step}/{run.spec.steps}", urgency if urgency != "normal" else ""]
    if run_words.learned_nothing(run):
        words.append("learned nothing")
    outcome = version_name(run.version) or run.failure.message or run_words.waits(run)
    return " ".join(filter(None, words)) + (f": {outcome}" if outcome else "")


def learned(spec: pb.RunSpec) -> Iterator[tuple[str, object]]:
    """Its sets: learned from, and validated on."""
    for name in ("problems", "validation_problems", "pairs", "validation_pairs"):
        if (found := getattr(spec, name)).name:
            first = f", the first {found.limit}" if found.HasField("limit") else ""
            yield name.partition("_")[0], f"{found.name}{first}"
    if spec.HasField("validate"):
        yield "validation", run_words.suite(spec.validate)


def hyperparameters(spec: pb.RunSpec) -> Iterator[tuple[str, object]]:
    """Each in a field of its own, under its name in a run's file."""
    for field, value in spec.hyperparameters.ListFields():
        named = field.enum_type.values_by_number[value].name if field.enum_type else value
        yield field.name, f"{named:g}" if isinstance(named, float) else named


def continued(spec: pb.RunSpec, run_id: str, step: int) -> pb.RunSpec:
    """The spec of a run that goes on from a step of run `run_id`, whose spec is given, for the steps that are left."""
    going = pb.RunSpec()
    going.CopyFrom(spec)
    for name in ("base", "profile_steps", "environment_digest"):
        going.ClearField(name)
    going.parent.CopyFrom(pb.ParentCheckpoint(run_id=run_id, step=step))
    going.steps = max(1, spec.steps - step)
    return going


def curves(steps: Sequence[pb.Step]) -> list[tuple[str, str, str, str]]:
    """A row for each metric of CURVES that the steps have: its name, the first value, the last, and a line of blocks
    from its least to its greatest, of WIDTH values at most (means of as many steps each)."""
    rows = []
    for metric, name in CURVES.items():
        values = [step.metrics[metric] for step in steps if metric in step.metrics]
        if values:
            size = -(-len(values) // WIDTH)
            means = [fmean(values[place : place + size]) for place in range(0, len(values), size)]
            line = sparkline(means, min(means), max(means))
            rows.append((name, f"{values[0]:.3g}", f"{values[-1]:.3g}", line))
    return rows


def panel(news: RunNews) -> RenderableType:
    run, steps = news.run, news.steps
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_row("run", f"{run.id}  {state_name(run)}" + (f"  attempt {run.attempt}" if run.attempt > 1 else ""))
    if news.activity:
        table.add_row("now", f"{news.activity}, {duration(time.monotonic() - news.since)}")
    table.add_row("step", f"{run.step} of {run.spec.steps}{news.time_left()}")
    rewards = [step.metrics["reward_mean"] for step in steps if "reward_mean" in step.metrics]
    if rewards:
        table.add_row("reward", f"{sparkline(rewards)}  {rewards[-1]:.3f}")
    losses = [step.metrics["loss"] for step in steps if "loss" in step.metrics and not rewards]
    if losses:
        table.add_row("loss", f"{sparkline(losses, min(losses), max(losses))}  {losses[-1]:.3f}")
    validated = [step for step in steps if "validation_score" in step.metrics]
    if validated:
        scores = "  ".join(f"{step.number}: {step.metrics['validation_score']:.3f}" for step in validated[-6:])
        table.add_row("validation", f"{scores}{interval(validated[-1].metrics)}")
    if steps:
        metrics = steps[-1].metrics
        table.add_row("", "  ".join(f"{key} {metrics[key]:.3g}" for key in METRICS if key in metrics))
    if run.notices:
        table.add_row("notice", run.notices[-1].message)
    if run.platform_faults:
        table.add_row("masked", f"{run.platform_faults} samples that the platform failed")
    return table
