"""The main job from end to end, through the public API only: what `ratchet demo` and `make demo` run.

up -> register the starter -> evaluate it -> train it with GRPO -> evaluate the result -> gate -> release under
traffic -> report -> down. It fails unless the result is measurably better.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.panel import Panel
from rich.text import Text

from ratchet.common.v1 import problem_pb2, statistics_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.gateway.v1 import release_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_cli.commands.evaluations import evaluation_spec
from ratchet_cli.commands.releases import release_spec
from ratchet_cli.demo.report import TurnReport, write
from ratchet_cli.demo.traffic import Traffic
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import print_heading, say, stdout
from ratchet_cli.views import evaluations, releases, runs
from ratchet_cli.views.models import decided, passed
from ratchet_cli.views.platform import bring_up, connect
from ratchet_client import Client
from ratchet_kit import refs
from ratchet_kit.names import CHAMPION, VersionRef
from ratchet_local import control, starter
from ratchet_local.home import Home
from ratchet_problems import load

MODEL = starter.MODEL
TRAIN, VALIDATION, HELD_OUT = "composed/train", "composed/validation", "composed/test"

# What was measured to learn well within the demo's time on two cores: see docs/demo.md.
LEARNING_RATE = 5e-5
WARMUP_STEPS = 5
BATCH_SIZE = 16
GROUP_SIZE = 8
VALIDATE_EVERY = 10
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


@dataclass(slots=True)  # mutable: it is written while the demo runs
class Stopwatch:
    """Seconds of each phase, in the order they came."""

    phases: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        print_heading(name)
        start = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] = time.monotonic() - start


def run_demo(home: Home, *, keep: bool, port_base: int, steps: int, seed: int) -> None:
    """Raises CommandError when a phase fails or the result is not better by LEAST_GAIN at LARGEST_P."""
    watch = Stopwatch()
    found_up = control.is_running(home)
    try:
        with watch.phase("bring the platform up"):
            state = bring_up(home, port_base, timeout_s=300)
        with connect(home, state, timeout_s=120) as client:
            turn = _turn(client, watch, steps, seed)
    finally:
        if control.is_running(home) and not (keep or found_up):
            with watch.phase("bring the platform down"):
                control.down(home)
    report = home.path / "report.html"
    write(turn, report)
    _summarise(turn, report)
    gain, p_value = turn.comparison.difference.value, turn.comparison.p_value
    if gain < LEAST_GAIN or p_value >= LARGEST_P:
        raise CommandError(
            f"The gain is too small: {gain:+.3f} (at least {LEAST_GAIN:+.2f} is required), "
            f"p = {p_value:.2g} (less than {LARGEST_P} is required)."
        )


def _turn(client: Client, watch: Stopwatch, steps: int, seed: int) -> TurnReport:
    base = starter.ensure_registered(client)

    with watch.phase(f"measure {base} on held-out problems"):
        before = _evaluate(client, base, seed)

    with watch.phase(f"train {base} with GRPO, {steps} steps"):
        run = _train(client, base, steps, seed)
        candidate = refs.version_from_proto(run.version)

    with watch.phase(f"measure {candidate} on the same problems"):
        after = _evaluate(client, candidate, seed)

    with watch.phase("gate"):
        gate = decided(client, client.models.create_gate(refs.version_to_proto(candidate), after.id, before.id))
        if not passed(gate):
            raise CommandError(f"The gate did not pass: {gate.reason}")
        say(f"passed: {gate.reason}")

    with watch.phase(f"release {candidate} under traffic"):
        release, answered = _release(client, candidate, gate.id, seed)
        champion = client.models.get(MODEL).aliases[CHAMPION]
        if champion != candidate.number:
            raise CommandError(f"The release succeeded, yet the champion is {MODEL}@{champion}.")
        say(f"{candidate} is champion; {answered} requests were answered meanwhile.")

    comparison = client.evaluations.compare(before.id, after.id)
    start = release.events[0].create_time.ToMicroseconds() if release.events else 0
    return TurnReport(
        title="One turn of the ratchet",
        baseline_name=str(base),
        candidate_name=str(candidate),
        comparison=comparison,
        samples_per_problem=SAMPLES_PER_PROBLEM,
        steps=[(step.number, dict(step.metrics)) for step in client.runs.steps(run.id)],
        release=[((e.create_time.ToMicroseconds() - start) / 1e6, e.percent, e.reason) for e in release.events],
        phases=watch.phases,
        facts={
            "training run": f"{run.id}, {run.step} steps, attempt {run.attempt}",
            "algorithm": f"GRPO, {BATCH_SIZE} problems x {GROUP_SIZE} completions per step, rate {LEARNING_RATE:g}",
            "weights before": before.policy_id,
            "weights after": after.policy_id,
            "samples masked for platform faults": str(run.platform_faults),
            "gate": f"{gate.id}: {gate.reason}",
            "release": f"{release.id}, {answered} requests answered",
        },
    )


def _evaluate(client: Client, version: VersionRef, seed: int) -> eval_pb2.Evaluation:
    ref = refs.model_to_proto(version)
    spec = evaluation_spec(ref, HELD_OUT, SAMPLES_PER_PROBLEM, HELD_OUT_PROBLEMS, 1.0, MAX_TOKENS, seed)
    evaluation = evaluations.follow(client, client.evaluations.create(spec).id, str(version))
    evaluations.raise_unless_succeeded(evaluation)
    evaluations.show_result(evaluation)
    return evaluation


def _train(client: Client, base: VersionRef, steps: int, seed: int) -> trainer_pb2.Run:
    spec = trainer_pb2.RunSpec(
        display_name="demo",
        base=refs.model_to_proto(base),
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
        output_model=MODEL,
    )
    run = runs.follow(client, client.runs.create(spec).id)
    runs.raise_unless_succeeded(run)
    if not run.HasField("version"):
        raise CommandError(f"Run {run.id} succeeded but registered no version.")
    return run


def _release(client: Client, candidate: VersionRef, gate_id: str, seed: int) -> tuple[release_pb2.Release, int]:
    """Releases the candidate while made-up users ask for held-out problems and the sandbox scores the answers."""
    traffic = Traffic(client, MODEL, HELD_OUT, load(HELD_OUT), MAX_TOKENS, seed)
    spec = release_spec(candidate, gate_id, (1, 5, 25, 50, 100), STAGE_SECONDS, STAGE_SAMPLES)
    spec.unproven = release_pb2.ReleaseSpec.UNPROVEN_PROCEED  # a few requests show that nothing is broken, not more
    spec.watch.SetInParent()  # 0: the next release may follow at once
    traffic.start()
    try:
        release = releases.follow(client, client.releases.create(spec).id)
    finally:
        traffic.stop()
    releases.raise_unless_succeeded(release)
    return release, traffic.answered


def _summarise(turn: TurnReport, report: Path) -> None:
    comparison = turn.comparison
    lines = [
        f"pass@1 before   {_shown(comparison.baseline)}   {turn.baseline_name}",
        f"pass@1 after    {_shown(comparison.candidate)}   {turn.candidate_name}",
        f"difference      {_shown(comparison.difference, '+')}   p = {comparison.p_value:.2g}",
        "",
        *(f"{name:<44} {seconds:6.0f} s" for name, seconds in turn.phases.items()),
        f"{'together':<44} {sum(turn.phases.values()):6.0f} s",
        "",
        f"report: {report}",
    ]
    stdout.print(Panel(Text("\n".join(lines)), title=turn.title, expand=False))


def _shown(estimate: statistics_pb2.Estimate, sign: str = "") -> str:
    return f"{estimate.value:{sign}.3f} [{estimate.low:{sign}.3f}, {estimate.high:{sign}.3f}]"
