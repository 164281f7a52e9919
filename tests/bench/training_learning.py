"""Does a policy learn as much here as in TRL's GRPOTrainer? `python -m tests.bench.training_learning [--seeds 3]`.

The starter, on composed/train, with the same reward (a program passes its tests in the sandbox, or not), batch,
lengths, learning rate and number of tokens; what else there is to set is each one's own default, without a KL term on
both sides. What counts is the last policy's pass@1 on composed/test, which both of a seed are measured on by one
platform, and the mean difference over seeds with its interval.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ratchet.common.v1 import model_pb2, problem_pb2, verdict_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import Client
from ratchet_client.sandbox import SandboxBatches
from ratchet_environments import Task
from ratchet_environments.programs import program_for
from ratchet_kit.statistics import Estimate, mean_of_runs
from ratchet_problems import Problem, load
from tests.bench.training_speed import CORES, PEER, ROOT, write
from tests.e2e.conftest import running

TRAIN, TEST = "composed/train", "composed/test"
PROMPTS, COMPLETIONS, MAX_PROMPT, MAX_TOKENS, LEARNING_RATE = 8, 8, 64, 72, 5e-5
SAMPLES = 4

Reward = Callable[[Sequence[str], Sequence[str]], Sequence[float]]


def ours(client: Client, seed: int, budget: int) -> str:
    """The folder of the last policy."""
    spec = trainer_pb2.RunSpec(
        base=model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter", alias="champion")),
        algorithm=trainer_pb2.ALGORITHM_GRPO,
        problems=problem_pb2.ProblemSetRef(name=TRAIN),
        reward=trainer_pb2.RewardSpec(name="tests_passed"),
        steps=1_000,
        max_tokens=budget,
        seed=seed,
        hyperparameters=trainer_pb2.Hyperparameters(
            batch_size=PROMPTS,
            group_size=COMPLETIONS,
            learning_rate=LEARNING_RATE,
            kl_coefficient=0,
            warmup_steps=0,
            max_prompt_tokens=MAX_PROMPT,
            max_response_tokens=MAX_TOKENS,
        ),
    )
    run = client.runs.wait(client.runs.create(spec).id)
    if run.state != trainer_pb2.Run.STATE_SUCCEEDED:
        raise SystemExit(f"the run failed: {run.failure.message}")
    return max(client.runs.checkpoints(run.id), key=lambda one: one.step).uri


def theirs(prompts: Path, seed: int, budget: int, save: Path, reward: Reward) -> None:
    """Leaves the last policy in `save`."""
    settings = {
        "prompts": PROMPTS,
        "completions": COMPLETIONS,
        "max_tokens": MAX_TOKENS,
        "learning_rate": LEARNING_RATE,
        "steps": 1_000,
        "budget": budget,
        "passes": 1,
        "threads": CORES,
        "seed": seed,
        "save": str(save),
        "asks": True,
    }
    script = Path(__file__).with_name("trl_steps.py")
    command = [str(PEER), str(script), str(ROOT / "models" / "starter"), str(prompts), json.dumps(settings)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=prompts.parent) as trl:
        assert trl.stdin
        assert trl.stdout
        for line in trl.stdout:
            if line.startswith('{"ids"'):
                asked = json.loads(line)
                print(json.dumps(reward(asked["ids"], asked["texts"])), file=trl.stdin, flush=True)
    if trl.returncode:
        raise SystemExit("TRL failed")


def judge(sandbox: SandboxBatches, problems: Sequence[Problem]) -> Reward:
    tasks = {one.id: Task.of(one) for one in problems}

    def reward(ids: Sequence[str], texts: Sequence[str]) -> Sequence[float]:
        programs = [program_for(tasks[id], text) for id, text in zip(ids, texts, strict=True)]
        rewards = [0.0] * len(ids)
        for seen in sandbox.watch(sandbox.create(programs).id):
            for item in seen.items:
                rewards[item.index] = float(item.execution.verdict == verdict_pb2.VERDICT_PASSED)
        return rewards

    return reward


def score(client: Client, folder: str) -> float:
    spec = eval_pb2.EvaluationSpec(
        model=model_pb2.ModelRef(uri=folder),
        problems=problem_pb2.ProblemSetRef(name=TEST),
        samples_per_problem=SAMPLES,
        max_tokens=MAX_TOKENS,
    )
    done = client.evaluations.wait(client.evaluations.create(spec).id)
    if done.state != eval_pb2.Evaluation.STATE_SUCCEEDED:
        raise SystemExit(f"the evaluation failed: {done.failure.message}")
    return next(one.estimate.value for one in done.pass_at_k if one.k == 1)


def shown(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=70_000)
    options = parser.parse_args()
    if not PEER.exists():
        print(f"skipped: {PEER} isn't there; `make bench` builds it")
        return 0
    problems = list(load(TRAIN))
    here, there = list[float](), list[float]()
    with tempfile.TemporaryDirectory(prefix="rat-") as place, running() as platform, platform.client() as client:
        prompts = Path(place) / "prompts.jsonl"
        write(prompts, problems)
        base = score(client, str(ROOT / "models" / "starter"))
        with SandboxBatches(platform.target("sandbox"), "trl", platform.home.service_token()) as sandbox:
            for seed in range(options.seeds):
                here.append(score(client, ours(client, seed, options.tokens)))
                save = platform.home.path / "models" / f"trl-{seed}"
                theirs(prompts, seed, options.tokens, save, judge(sandbox, problems))
                there.append(score(client, str(save)))
                print(f"seed {seed}: Ratchet {here[-1]:.3f}, TRL {there[-1]:.3f}", file=sys.stderr)
    print(f"pass@1 on {TEST} after {options.tokens} tokens, {options.seeds} seeds; the base has {base:.3f}")
    for name, found in (("Ratchet", here), ("TRL", there)):
        print(f"{name:10}{shown(mean_of_runs(found))}")
    print(f"difference {shown(mean_of_runs([a - b for a, b in zip(here, there, strict=True)]))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
