"""How long a step of GRPO takes here and in TRL's GRPOTrainer: `make bench`, or `python -m tests.bench.training_speed`.

The same model, prompts, lengths and batch: 16 prompts of composed/train, 8 completions each. In turn, each alone on the
machine: TRL as a user starts it, a script of its own; Ratchet's whole platform, to which two runs are sent, the second
with max_staleness 1. A step is the time between the ends of two; the first is counted from the command. The policy
hardly changes (lr 1e-6), so that completions stay as long on both sides. Ours are judged in the sandbox; TRL's rewards
are computed in no time. `--processor` also prints what each of our processes computed in a step, without the programs
in the sandbox, which are over by then.
"""

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import Client
from ratchet_environments import Task
from ratchet_local.processes import marked
from ratchet_problems import Problem, load
from tests.e2e.conftest import running

ROOT = Path(__file__).parents[2]
PEER = Path(sys.prefix).parent / "peers-trl" / "bin" / "python"
PROBLEMS = "composed/train"
PROMPTS, COMPLETIONS, MAX_PROMPT, MAX_TOKENS, LEARNING_RATE = 16, 8, 64, 72, 1e-6
CORES = len(os.sched_getaffinity(0))
TRL, OURS, BESIDE = "TRL", "Ratchet", "asynchronous"
STALENESS = {OURS: 0, BESIDE: 1}
WANTED, WANTED_FIRST_S = {OURS: 0.75, BESIDE: 0.6}, 40.0
"""A step against TRL's, and the first one after the command."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Of one run. `seconds`: of each step, the first from the command. `tokens`: new ones of a completion, the mean."""

    seconds: Sequence[float]
    tokens: Sequence[float]

    @property
    def usual(self) -> float:
        """Without the first, which loads, and the last, which validates and saves."""
        return statistics.median(self.seconds[1:-1])


def processor(home: Path) -> Counter[str]:
    """What each process of a platform has computed so far, in seconds of one core, by its name."""
    found: Counter[str] = Counter()
    processes = {*marked(home)}
    for one in list(processes):
        with suppress(psutil.NoSuchProcess):
            processes |= {*one.children(recursive=True)}
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            times, words = process.cpu_times(), process.cmdline()
            title = next((word for word in words if re.search(r"::|_service", word)), process.name()).strip()
            name = title.partition(".")[0] if title.startswith("ray::") else title  # then what it does just now
            found[name] += times.user + times.system
    return found


def ours(client: Client, steps: int, max_staleness: int, home: Path | None = None) -> Steps:
    """`home`: of the platform whose processes are looked at."""
    spec = trainer_pb2.RunSpec(
        base=model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter", alias="champion")),
        algorithm=trainer_pb2.ALGORITHM_GRPO,
        problems=problem_pb2.ProblemSetRef(name=PROBLEMS),
        validation_problems=problem_pb2.ProblemSetRef(name="composed/validation", limit=8),
        reward=trainer_pb2.RewardSpec(name="tests_passed"),
        steps=steps,
        hyperparameters=trainer_pb2.Hyperparameters(
            batch_size=PROMPTS,
            group_size=COMPLETIONS,
            learning_rate=LEARNING_RATE,
            warmup_steps=0,
            max_prompt_tokens=MAX_PROMPT,
            max_response_tokens=MAX_TOKENS,
            max_staleness=max_staleness,
        ),
    )
    began = time.time()
    run = client.runs.create(spec)
    looks: dict[int, Counter[str]] = {}
    for seen in client.runs.watch(run.id):
        run = seen.run
        if home and run.step and run.step not in looks:
            looks[run.step] = processor(home)
    if looks:
        first, *_, last = sorted(looks)[:-1]  # the last step validates and saves
        spent = Counter({name: (end - looks[first][name]) / (last - first) for name, end in looks[last].items()})
        print("  processor seconds a step:", file=sys.stderr)
        for name, of_step in spent.most_common():
            if of_step >= 0.02:
                print(f"    {of_step:6.2f}  {name}", file=sys.stderr)
    if run.state != trainer_pb2.Run.STATE_SUCCEEDED:
        raise SystemExit(f"the run failed: {run.failure.message}")
    made = sorted(client.runs.steps(run.id), key=lambda step: step.number)
    ends = [began, *(step.create_time.ToMicroseconds() / 1e6 for step in made)]
    for step in made:
        shown = {name: round(value, 3) for name, value in sorted(step.metrics.items()) if name.startswith("time_")}
        print(f"  step {step.number}: {json.dumps(shown)}", file=sys.stderr)
    seconds = [end - start for start, end in itertools.pairwise(ends)]
    return Steps(seconds, [step.metrics["response_tokens_mean"] for step in made])


def write(prompts: Path, problems: Iterable[Problem]) -> None:
    """As trl_steps.py takes them."""
    rows = ({"id": one.id, "prompt": Task.of(one).conversation} for one in problems)
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))


def theirs(prompts: Path, steps: int, passes: int) -> Steps:
    settings = {
        "prompts": PROMPTS,
        "completions": COMPLETIONS,
        "max_tokens": MAX_TOKENS,
        "learning_rate": LEARNING_RATE,
        "steps": steps,
        "passes": passes,
        "threads": CORES,
    }
    script = Path(__file__).with_name("trl_steps.py")
    command = [str(PEER), str(script), str(ROOT / "models" / "starter"), str(prompts), json.dumps(settings)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    finished = subprocess.run(command, capture_output=True, text=True, cwd=prompts.parent, env=environment)
    if finished.returncode:
        raise SystemExit(f"TRL failed: {finished.stderr.strip()[-2000:]}")
    made = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith('{"seconds"')]
    return Steps([step["seconds"] for step in made], [step["tokens"] for step in made])


def spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--passes", type=int, default=1, help="in which TRL learns from a batch")
    parser.add_argument("--processor", action="store_true", help="of a step, by process")
    options = parser.parse_args()
    if not PEER.exists():
        print(f"skipped: {PEER} isn't there; `make bench` builds it")
        return 0
    found: dict[str, list[Steps]] = {TRL: [], OURS: [], BESIDE: []}
    with tempfile.TemporaryDirectory(prefix="rat-") as place:
        prompts = Path(place) / "prompts.jsonl"
        write(prompts, load(PROBLEMS))
        for number in range(options.rounds):
            found[TRL].append(theirs(prompts, options.steps, options.passes))
            with running() as platform, platform.client() as client:
                home = platform.home.path if options.processor else None
                for name, max_staleness in STALENESS.items():
                    found[name].append(ours(client, options.steps, max_staleness, home))
            print(f"round {number + 1}: { ({name: steps[-1] for name, steps in found.items()}) }", file=sys.stderr)
    print(f"{CORES} cores; median (least-most) of {options.rounds} rounds of {options.steps} steps")
    print(f"{'':12}{'new tokens':>12}{'first step, s':>22}{'a step, s':>22}")
    for name, rounds in found.items():
        tokens = statistics.fmean(token for steps in rounds for token in steps.tokens)
        first, usual = [steps.seconds[0] for steps in rounds], [steps.usual for steps in rounds]
        print(f"{name:12}{tokens:>12.1f}{spread(first):>22}{spread(usual):>22}")
    for name, wanted in WANTED.items():
        ratios = [a.usual / b.usual for a, b in zip(found[name], found[TRL], strict=True)]
        print(f"{name}, a step against TRL's: {spread(ratios)}, wanted at most {wanted}")
    firsts = [steps.seconds[0] for steps in found[OURS]]
    print(f"first step: {spread(firsts)} s after the command, wanted at most {WANTED_FIRST_S:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
