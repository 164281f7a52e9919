"""How long a step takes where some answers are long, by max_staleness: `python -m tests.bench.partial_rollouts`.

Two workloads, each by one platform and one run of GRPO after another, with a learning rate that changes nothing:
completions of the starter at a temperature at which some never end (192 tokens; most have 30); and episodes of a
harness, one in eight of which does nothing for 20 s between its two questions. A step is the time between the ends of
two, without the first, which loads, and the last, which validates and saves. Prints the median step and its ratio to
that of max_staleness 0, in this run.
"""

import itertools
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ratchet.common.v1 import environment_pb2, model_pb2, problem_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import Client
from ratchet_local import starter
from tests.e2e.conftest import Platform, running

ROOT = Path(__file__).parents[2]
STEPS, STALENESS = 12, (0, 1, 3)
AGENT = """
import json, os, random, time, urllib.request

def ask(text):
    body = {"model": "any", "messages": [{"role": "user", "content": text}], "max_tokens": 16}
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read()

ask("Write f.")
if random.random() < 1 / 8:
    time.sleep(20)
ask("Write g.")
"""


def step_seconds(client: Client, spec: Mapping[str, Any], hyper: Mapping[str, Any], max_staleness: int) -> float:
    """The median step of a run."""
    run = client.runs.create(
        trainer_pb2.RunSpec(
            base=model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter", alias="champion")),
            algorithm=trainer_pb2.ALGORITHM_GRPO,
            steps=STEPS,
            hyperparameters=trainer_pb2.Hyperparameters(
                learning_rate=1e-30, warmup_steps=0, max_staleness=max_staleness, **hyper
            ),
            **spec,
        )
    )
    for seen in client.runs.watch(run.id):
        run = seen.run
    if run.state != trainer_pb2.Run.STATE_SUCCEEDED or run.platform_faults:
        raise SystemExit(f"the run failed: {run.failure.message}, {run.platform_faults} samples lost")
    made = sorted(client.runs.steps(run.id), key=lambda step: step.number)
    ends = [step.create_time.ToMicroseconds() / 1e6 for step in made]
    last: dict[str, float] = dict(made[-2].metrics)
    print(f"    staleness {last['staleness_mean']:.2f} (most {last['staleness_max']:.0f})", file=sys.stderr)
    return statistics.median([end - start for start, end in itertools.pairwise(ends)][:-1])


def compare(client: Client, name: str, spec: Mapping[str, Any], hyper: Mapping[str, Any]) -> None:
    found = {staleness: step_seconds(client, spec, hyper, staleness) for staleness in STALENESS}
    shown = [f"{seconds:.2f} s ({seconds / found[0]:.2f})" for seconds in found.values()]
    print(f"{name:24}" + "".join(f"{one:>18}" for one in shown), flush=True)


def add_tasks(platform: Platform) -> None:
    done = platform.ratchet("data", "add", "--name", "waits", str(ROOT / "examples/tasks/csv-to-json"))
    if done.returncode:
        raise SystemExit(done.stderr)


def main() -> int:
    with running() as platform, platform.client() as client:
        starter.ensure_registered(client)
        print(f"{'a step, max_staleness':24}" + "".join(f"{one:>18}" for one in STALENESS))
        completions = {"problems": problem_pb2.ProblemSetRef(name="composed/train")}
        sizes = {"batch_size": 8, "group_size": 8, "max_prompt_tokens": 64, "max_response_tokens": 192}
        compare(client, "completions", completions, sizes | {"temperature": 1.3})
        add_tasks(platform)
        harness = environment_pb2.EnvironmentSpec(
            name="harness", command=["python", "/tmp/harness/agent.py"], files={"agent.py": AGENT}
        )
        episodes = {"problems": problem_pb2.ProblemSetRef(name="waits"), "environment": harness}
        compare(client, "episodes", episodes, {"batch_size": 1, "group_size": 8})
    return 0


if __name__ == "__main__":
    sys.exit(main())
