"""The main job from end to end: what `ratchet demo` and `make demo` run.

up -> register the starter -> one turn of `ratchet improve`, under made-up traffic while it is released -> down. It
fails unless the result is measurably better.
"""

import time
from pathlib import Path

from rich.panel import Panel
from rich.text import Text

from ratchet.common.v1 import problem_pb2, statistics_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.gateway.v1 import release_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_cli.commands.releases import staged
from ratchet_cli.demo.traffic import Traffic
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import print_heading, say, stdout
from ratchet_cli.views.platform import bring_up, connect
from ratchet_cli.views.progress import Terminal
from ratchet_client import Client
from ratchet_local import control, starter
from ratchet_local.home import Home
from ratchet_problems import load
from ratchet_workflows.turns.plan import Plan
from ratchet_workflows.turns.records import State, Turns
from ratchet_workflows.turns.report import TurnReport, gather, write
from ratchet_workflows.turns.turn import Turn

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
            report = _turn(client, Turns(home.path / "demo"), demo_plan(steps, seed), seed)
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


def _turn(client: Client, turns: Turns, plan: Plan, seed: int) -> TurnReport:
    base = starter.ensure_registered(client)
    traffic = Traffic(client, MODEL, HELD_OUT, load(HELD_OUT), MAX_TOKENS, seed)
    with turns.locked():
        record = turns.begin(plan.digest, MODEL, base.number)
        record = Turn(client, plan, turns, record, progress=Terminal(), releasing=lambda: traffic).finish()
    if record.state is State.RELEASED:
        say(f"{record.sentence} {traffic.answered} requests were answered meanwhile.")
    return gather(client, record)


def demo_plan(steps: int, seed: int) -> Plan:
    release = release_pb2.ReleaseSpec(stages=staged((1, 5, 25, 50, 100), STAGE_SECONDS, STAGE_SAMPLES))
    release.unproven = release_pb2.ReleaseSpec.UNPROVEN_PROCEED  # a few requests show that nothing is broken, not more
    release.watch.SetInParent()  # 0: the next release may follow at once
    return Plan(
        model=MODEL,
        train=trainer_pb2.RunSpec(
            display_name="demo",
            algorithm=trainer_pb2.ALGORITHM_GRPO,
            problems=problem_pb2.ProblemSetRef(name=TRAIN),
            validation_problems=problem_pb2.ProblemSetRef(name=VALIDATION, limit=VALIDATION_PROBLEMS),
            reward=trainer_pb2.RewardSpec(name="tests_passed"),
            steps=steps,
            validate_every=VALIDATE_EVERY,
            seed=seed,
            hyperparameters=trainer_pb2.Hyperparameters(
                learning_rate=LEARNING_RATE,
                batch_size=BATCH_SIZE,
                group_size=GROUP_SIZE,
                max_prompt_tokens=MAX_PROMPT_TOKENS,
                max_response_tokens=MAX_TOKENS,
                warmup_steps=WARMUP_STEPS,
            ),
        ),
        evaluate=eval_pb2.EvaluationSpec(
            problems=problem_pb2.ProblemSetRef(name=HELD_OUT, limit=HELD_OUT_PROBLEMS),
            samples_per_problem=SAMPLES_PER_PROBLEM,
            k=[1],
            temperature=1.0,
            max_tokens=MAX_TOKENS,
            seed=seed,
        ),
        gate=registry_pb2.CreateGateRequest(),
        release=release,
    )


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
