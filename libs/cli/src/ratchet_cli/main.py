"""The `ratchet` command. Every error is one sentence on stderr and an exit code, never a trace.

Exit codes: 0 done; 1 the work failed or cannot be done here; 2 wrong usage; 3 the platform refused the request;
4 no platform answers; 130 interrupted.
"""

import os
import sys

import typer

from ratchet_cli.commands import (
    batches,
    benchmarks,
    cluster,
    comparisons,
    costs,
    data,
    episodes,
    evaluations,
    experiments,
    gates,
    harnesses,
    keys,
    matrix,
    models,
    nodes,
    platform,
    plugins,
    preferences,
    quality,
    releases,
    reports,
    rewards,
    runs,
    runtimes,
    samples,
    sandbox,
    tasks,
    traces,
    traffic,
    trends,
    webhooks,
    workflows,
)
from ratchet_cli.demo.command import demo
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import stderr
from ratchet_client import ApiError, Unreachable
from ratchet_local.errors import PlatformError
from ratchet_reports.errors import ReportError
from ratchet_workflows.errors import UsageError, WorkflowError

TRACE = "RATCHET_TRACE"
"""The environment variable that shows an unexpected error with its trace."""

app = typer.Typer(
    name="ratchet",
    help="Post-train code models with reinforcement learning, and ship only what measurably improved.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (
    platform.up,
    platform.status,
    platform.failures,
    platform.logs,
    platform.restart,
    platform.disk,
    platform.backup,
    platform.restore,
    platform.down,
    demo,
    workflows.improve,
    workflows.study,
    runs.train,
    evaluations.evaluate,
    episodes.episode,
    traces.trace,
    gates.gate,
    reports.report,
    costs.costs,
    cluster.cluster,
    matrix.matrix,
    quality.quality,
    releases.deploy,
):
    app.command()(command)
app.add_typer(runs.app, name="runs")
app.add_typer(evaluations.app, name="evaluations")
evaluations.app.command()(comparisons.compare)
evaluations.app.command()(comparisons.plan)
evaluations.app.command()(trends.trend)
app.add_typer(samples.app, name="samples")
app.add_typer(benchmarks.app, name="benchmarks")
app.add_typer(data.app, name="data")
app.add_typer(preferences.app, name="preferences")
app.add_typer(models.app, name="models")
app.add_typer(releases.app, name="releases")
app.add_typer(experiments.app, name="experiments")
app.add_typer(keys.app, name="keys")
app.add_typer(traffic.app, name="traffic")
app.add_typer(nodes.app, name="nodes")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(workflows.app, name="workflows")
app.add_typer(rewards.app, name="reward")
app.add_typer(rewards.new, name="new")
rewards.new.command("sampler")(plugins.new_sampler)
rewards.new.command("loss")(plugins.new_loss)
rewards.new.command("advantage")(plugins.new_advantage)
rewards.new.command("algorithm")(plugins.new_algorithm)
rewards.new.command("dataset")(plugins.new_dataset)
rewards.new.command("environment")(plugins.new_environment)
rewards.new.command("harness")(harnesses.new_harness)
rewards.new.command("tools")(harnesses.new_tools)
app.add_typer(sandbox.app, name="sandbox")
app.add_typer(tasks.app, name="tasks")
sandbox.app.add_typer(runtimes.app, name="runtime")
sandbox.app.add_typer(batches.app, name="batches")
sandbox.app.command()(batches.batch)


def main() -> None:
    try:
        # Wrong usage and Ctrl-C are answered by typer itself, which then exits.
        app()
    except CommandError as error:
        _leave(str(error), error.code)
    except UsageError as error:
        _leave(str(error), 2)
    except (PlatformError, ReportError, WorkflowError) as error:
        _leave(str(error), 1)
    except ApiError as error:
        _leave(str(error), 3)
    except Unreachable as error:
        _leave(str(error), 4)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        if os.environ.get(TRACE):
            raise
        _leave(f"This is a fault of the command itself: {type(error).__name__}: {error} ({TRACE}=1 shows where)", 1)


def _leave(sentence: str, code: int) -> None:
    stderr.print("[bold red]ratchet:[/] ", end="")
    stderr.print(sentence, markup=False, soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
