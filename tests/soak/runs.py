"""Runs of three steps, with one random fault each at a random moment: `make soak-runs`, some 40 minutes on two cores.

    python -m tests.soak.runs --runs 60 --seed 0

At most one in 60 may end otherwise than SUCCEEDED, and none with other steps than it was to have. The first two runs
have no fault: the second, for which everything is warm, shows how long one takes.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from threading import Thread
from typing import TypeVar

from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import ApiError, Client, Unreachable
from tests.chaos.faults import ALL, Fault
from tests.e2e.conftest import Platform, running
from tests.e2e.test_main_job import grpo

STEPS = 3
LIMIT_S = 1800.0
MODEL = "soak"
OVER = (trainer_pb2.Run.STATE_SUCCEEDED, trainer_pb2.Run.STATE_FAILED, trainer_pb2.Run.STATE_CANCELLED)

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome:
    run: str
    fault: str
    moment_s: float
    """After the run was created."""
    state: str
    message: str
    attempts: int
    steps: list[int]
    seconds: float

    @property
    def succeeded(self) -> bool:
        return self.state == "SUCCEEDED"

    @property
    def has_its_steps(self) -> bool:
        return not self.succeeded or self.steps == list(range(1, STEPS + 1))


def happen(platform: Platform, fault: Fault, moment_s: float, end: float) -> None:
    """Waits for something that it can happen to."""
    time.sleep(moment_s)
    while time.monotonic() < end:
        try:
            fault(platform)
            return
        except AssertionError:
            time.sleep(0.5)


def train(platform: Platform, client: Client, fault: str, moment_s: float, seed: int) -> Outcome:
    spec = grpo(steps=STEPS)
    spec.checkpoint_every, spec.output_model, spec.seed = 1, MODEL, seed
    began = time.monotonic()
    run = patiently(lambda: client.runs.create(spec))
    happening = Thread(target=happen, args=(platform, ALL.get(fault), moment_s, began + LIMIT_S), daemon=True)
    if fault:
        happening.start()
    run = ended(client, run.id, began + LIMIT_S)
    seconds = time.monotonic() - began
    if run.state not in OVER:
        patiently(lambda: client.runs.cancel(run.id))
    if fault:
        happening.join(60)
    return Outcome(
        run=run.id,
        fault=fault + (" (not yet)" if fault and happening.is_alive() else ""),
        moment_s=round(moment_s, 1),
        state=trainer_pb2.Run.State.Name(run.state).removeprefix("STATE_"),
        message=run.failure.message,
        attempts=run.attempt,
        steps=patiently(lambda: [s.number for s in client.runs.steps(run.id) if "reward_mean" in s.metrics]),
        seconds=round(seconds, 1),
    )


def ended(client: Client, id: str, end: float) -> trainer_pb2.Run:
    """The run as it is when it is over, or when its time is."""
    while True:
        run = patiently(lambda: client.runs.get(id))
        if run.state in OVER or time.monotonic() > end:
            return run
        time.sleep(1)


def patiently(call: Callable[[], T]) -> T:
    """What is away comes back."""
    for _ in range(300):
        try:
            return call()
        except (ApiError, Unreachable) as error:
            reason = error
            time.sleep(1)
    raise reason


def soak(runs: int, seed: int) -> list[Outcome]:
    chance, outcomes = random.Random(seed), list[Outcome]()
    with running() as platform, platform.client() as client:
        client.models.create(MODEL)
        for _ in range(2):
            usual = train(platform, client, "", 0, seed)
            print(json.dumps(asdict(usual)), flush=True)
            assert usual.succeeded, "a run without a fault does not succeed"
        for number in range(runs):
            moment_s = chance.uniform(0, usual.seconds)
            outcomes.append(train(platform, client, chance.choice(sorted(ALL)), moment_s, seed + number))
            print(json.dumps(asdict(outcomes[-1])), flush=True)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    outcomes = soak(chosen.runs, chosen.seed)
    states = Counter(outcome.state for outcome in outcomes)
    failed = len(outcomes) - states["SUCCEEDED"]
    wrong = sum(not outcome.has_its_steps for outcome in outcomes)
    print(f"{len(outcomes)} runs: {dict(states)}, {wrong} with a wrong number of steps")
    return int(failed > max(1, chosen.runs // 60) or wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
