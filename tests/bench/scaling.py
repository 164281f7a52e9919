"""How the update scales with ranks: `python -m tests.bench.scaling --model FOLDER`, six minutes with SmolLM2.

A pass of FSDP gathers the weights twice and scatters the gradients once: 3 b (n - 1) / n bytes a parameter through each
rank's link, where a value has b bytes (arXiv:2304.11277). It computes 6 t FLOP a parameter, for t tokens of the rank
(arXiv:2001.08361). So, with nothing hidden behind computing,

    T(n) = 6 P t / F + 3 P b (n - 1) / (n B)

for P parameters, F FLOP/s and B bytes/s; the share of its time in which a rank computes does not depend on P. Here F is
one core, B is gloo over loopback. Steps of SFT are measured on 1 core with 1 rank, and on 2 with 2: with the same batch
(strong) and with twice of it (weak). B is fitted to the strong one, and the weak one is predicted by it. `--predict`
prints what GPUs would do, and measures nothing.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer_service.job.policy.transport import size_of_weights

ROOT = Path(__file__).parents[2]
STEPS = 5
FLOATS = 4
"""Bytes of a value on CPU."""
USE = 0.4
"""Share of the card's peak that an update reaches while it computes: as others report of dense models; not measured."""


@dataclass(frozen=True, slots=True)
class Place:
    """Published numbers of one accelerator and its slowest link. `flops`: dense bfloat16 per second. `link`: bytes/s
    each way."""

    name: str
    flops: float
    link: float


PLACES = (
    Place("H100 SXM, NVLink 4", 989e12, 450e9),
    Place("H100 SXM, InfiniBand NDR, one a GPU", 989e12, 50e9),
    Place("A100 SXM, NVLink 3", 312e12, 300e9),
    Place("H100 PCIe 5", 756e12, 64e9),
)


def share(tokens: float, ranks: int, place: Place) -> float:
    """Of its time, what a rank computes with `tokens` a pass, in bfloat16; the rest it waits for others."""
    computes = 6 * tokens / (USE * place.flops)
    return computes / (computes + 3 * 2 * (ranks - 1) / ranks / place.link)


def tokens_for(wanted: float, ranks: int, place: Place) -> float:
    """Tokens a pass and rank from which a rank computes the share `wanted` of its time."""
    return wanted / (1 - wanted) * USE * place.flops * (ranks - 1) / ranks / place.link


def seconds(model: Path, ranks: int, batch: int) -> float:
    """Median of a step without the first, on as many cores as ranks."""
    settings = {"batch_size": batch, "max_prompt_tokens": 192, "max_response_tokens": 64, "micro_batch_tokens": 100_000}
    command = [
        *("taskset", "-c", ",".join(str(core) for core in range(ranks))),
        *(sys.executable, str(Path(__file__).with_name("training_memory.py")), "--model", str(model)),
        *("--algorithm", "sft", "--ranks", str(ranks), "--steps", str(STEPS), "--memory", "14"),
        *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    steps = [json.loads(one) for one in re.findall(r"^step \d+: .*? (\{.*\})$", done.stdout, re.MULTILINE)]
    if done.returncode or len(steps) != STEPS:
        raise SystemExit(f"the run failed:\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}")
    return float(statistics.median(step["time_step_s"] for step in steps[1:]))


def measure(model: Path, batch: int) -> None:
    values = size_of_weights(str(model)) / FLOATS
    alone, strong, weak = (seconds(model, ranks, of) for ranks, of in ((1, batch), (2, batch), (2, 2 * batch)))
    waits = strong - alone / 2
    print(f"one rank, batch {batch}: {alone:.2f} s a step")
    print(f"two ranks, batch {batch} (strong): {strong:.2f} s, {alone / strong / 2:.0%} of twice as fast")
    print(f"two ranks, batch {2 * batch} (weak): {weak:.2f} s, {alone / weak:.0%}; by the model {alone + waits:.2f} s")
    if waits > 0:
        print(f"fitted link: {3 * values * FLOATS / 2 / waits / 1e9:.2f} GB/s")


def predict(counts: Sequence[int] = (4, 8, 64)) -> None:
    print("share of its time that a rank computes, at 4,096 and 16,384 tokens a pass; tokens for 80 %")
    for place in PLACES:
        for ranks in counts:
            at = ", ".join(f"{share(tokens, ranks, place):.0%}" for tokens in (4096, 16384))
            print(f"  {place.name}, {ranks} ranks: {at}; {tokens_for(0.8, ranks, place):,.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="folder of a model that takes seconds a step, in float32")
    parser.add_argument("--batch", type=int, default=4, help="examples of a step on one rank")
    parser.add_argument("--predict", action="store_true", help="measure nothing")
    given = parser.parse_args()
    if not given.predict:
        if given.model is None:
            parser.error("--model: a folder such as ~/.ratchet/models/smollm2 (make smollm2)")
        measure(given.model, given.batch)
    predict()
