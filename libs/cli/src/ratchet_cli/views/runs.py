"""How a training run is shown: what it does, how far it is, how long it will take."""

import time

from rich.console import RenderableType
from rich.table import Table

from ratchet_cli.terminal.output import sparkline
from ratchet_client.names import state_name
from ratchet_kit.times import duration
from ratchet_workflows.following.runs import RunNews, interval

METRICS = ("kl", "entropy", "clip_fraction", "grad_norm", "logprob_diff_mean", "time_step_s")


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
