"""The main job from end to end: what `ratchet demo` and `make demo` run.

up -> register the starter -> one turn of `ratchet improve`, under made-up traffic while it is released -> down. It
fails unless the result is measurably better.
"""

import json
import time
from contextlib import ExitStack
from pathlib import Path

from rich.panel import Panel
from rich.text import Text

from ratchet.common.v1 import statistics_pb2
from ratchet.gateway.v1.workflow_pb2 import Workflow, WorkflowPlan
from ratchet_cli.demo.traffic import Traffic
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import print_heading, say, stdout
from ratchet_cli.views import workflows
from ratchet_cli.views.platform import bring_up, connect
from ratchet_client import Client
from ratchet_client.workflows import TURN
from ratchet_local import control, starter
from ratchet_local.home import Home
from ratchet_problems import load
from ratchet_workflows.progress import STAGE
from ratchet_workflows.turns.records import Record
from ratchet_workflows.turns.report import TurnReport, gather, write

MODEL = starter.MODEL
TRAIN, VALIDATION, HELD_OUT = "composed/train", "composed/validation", "composed/test"

# What was measured to learn well within the demo's time on two cores: see docs/demo.md.
LEARNING_RATE = 8e-5
WARMUP_STEPS = 4
BATCH_SIZE = 32
GROUP_SIZE = 8
VALIDATE_EVERY = 8
VALIDATION_PROBLEMS = 200
HELD_OUT_PROBLEMS = 200
SAMPLES_PER_PROBLEM = 4
MAX_PROMPT_TOKENS = 64
MAX_TOKENS = 72

STAGES = (5, 25, 50, 100)
"""Percents. A stage of 1 % would wait for 800 requests (55 s more: docs/demo.md) and show nothing more."""
STAGE_SECONDS = 4.0
STAGE_SAMPLES = 8

# The promise of the README: the demo is not a success below this.
LEAST_GAIN = 0.15
LARGEST_P = 0.01


def run_demo(home: Home, *, keep: bool, port_base: int, steps: int, seed: int) -> None:
    """Raises CommandError when a stage fails or the result is not better by LEAST_GAIN at LARGEST_P."""
    start = time.monotonic()
    found_up = control.is_running(home)
    try:
        print_heading("bring the platform up")
        state = bring_up(home, port_base, timeout_s=300)
        with connect(home, state, timeout_s=120) as client:
            report = _turn(client, steps, seed)
    finally:
        if control.is_running(home) and not (keep or found_up):
            print_heading("bring the platform down")
            control.down(home)
    page = home.path / "report.html"
    write(report, page)
    if not report.is_good or report.comparison is None:
        raise CommandError(report.sentence)
    _summarise(report, report.comparison, page, time.monotonic() - start)
    gain, p_value = report.comparison.difference.value, report.comparison.p_value
    if gain < LEAST_GAIN or p_value >= LARGEST_P:
        raise CommandError(
            f"The gain is too small: {gain:+.3f} (at least {LEAST_GAIN:+.2f} is required), "
            f"p = {p_value:.2g} (less than {LARGEST_P} is required)."
        )


def _turn(client: Client, steps: int, seed: int) -> TurnReport:
    starter.ensure_registered(client)
    made = client.workflows.create(WorkflowPlan(kind=TURN, name="demo.yaml", text=demo_plan(steps, seed)))
    traffic = Traffic(client, MODEL, HELD_OUT, load(HELD_OUT), MAX_TOKENS, seed)
    with ExitStack() as stack:

        def say_line(line: str) -> None:
            workflows.line(line)
            if line.startswith(f"{STAGE}release "):
                stack.enter_context(traffic)

        workflow = workflows.watch(client, made.id, say_line)
    if workflow.state == Workflow.STATE_SUCCEEDED:
        say(f"{workflow.sentence} {traffic.answered} requests were answered meanwhile.")
    return gather(client, Record.of_json(workflows.record_of(workflow)))


def demo_plan(steps: int, seed: int) -> str:
    """A few requests show that nothing is broken, not more: the release goes on without proof. Its watch of 0 s lets
    the next release follow at once."""
    train = {
        "display_name": "demo",
        "algorithm": "grpo",
        "problems": TRAIN,
        "validation_problems": {"name": VALIDATION, "limit": VALIDATION_PROBLEMS},
        "reward": "tests",
        "steps": steps,
        "validate_every": VALIDATE_EVERY,
        "seed": seed,
        "hyperparameters": {
            "learning_rate": LEARNING_RATE,
            "batch_size": BATCH_SIZE,
            "group_size": GROUP_SIZE,
            "max_prompt_tokens": MAX_PROMPT_TOKENS,
            "max_response_tokens": MAX_TOKENS,
            "warmup_steps": WARMUP_STEPS,
        },
    }
    evaluate = {
        "problems": {"name": HELD_OUT, "limit": HELD_OUT_PROBLEMS},
        "samples_per_problem": SAMPLES_PER_PROBLEM,
        "k": [1],
        "temperature": 1.0,
        "max_tokens": MAX_TOKENS,
        "seed": seed,
    }
    stages = [
        {"percent": percent, "min_duration": f"{STAGE_SECONDS:g}s", "min_samples": STAGE_SAMPLES} for percent in STAGES
    ]
    release = {"stages": stages, "unproven": "proceed", "watch": "0s"}
    return json.dumps({"model": MODEL, "train": train, "evaluate": evaluate, "release": release}, indent=1)


def _summarise(report: TurnReport, comparison: statistics_pb2.Comparison, page: Path, seconds: float) -> None:
    lines = [
        f"pass@1 before   {_shown(comparison.baseline)}   {report.baseline_name}",
        f"pass@1 after    {_shown(comparison.candidate)}   {report.candidate_name}",
        f"difference      {_shown(comparison.difference, '+')}   p = {comparison.p_value:.2g}",
        "",
        *(f"{name:<44} {phase:6.0f} s" for name, phase in report.phases.items()),
        f"{'all of it, with the platform up and down':<44} {seconds:6.0f} s",
        "",
        f"report: {page}",
    ]
    stdout.print(Panel(Text("\n".join(lines)), title=report.title, expand=False))


def _shown(estimate: statistics_pb2.Estimate, sign: str = "") -> str:
    return f"{estimate.value:{sign}.3f} [{estimate.low:{sign}.3f}, {estimate.high:{sign}.3f}]"
