"""A file of 16,400 samples judged as a user would: `python -m tests.bench.many_samples`. 100 of each HumanEval problem.

They are published samples, each with a comment of its own so that no two are the same. Shows the seconds, how many of
the published verdicts were found again, and the most memory that the services had resident.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from ratchet_benchmarks import folder
from ratchet_client import sample_files
from tests.bench.evaluation_speed import LINES, ROOT, bring
from tests.e2e.judging import Judges, judges

RESULTS = (
    "humaneval-cursor/gpt_3_5-azure.jsonl_results.jsonl.gz",
    "humaneval-poe/codegemma_7b_results.jsonl.gz",
    "humaneval-poe/codellama_7b_results.jsonl.gz",
    "qwen2.5-coder/1.5b-base.evalplus-humaneval.eval_results.json.gz",
)


def write(file: Path, data: Path, copies: int) -> int:
    """How many samples are in it."""
    count = 0
    with file.open("w") as out:
        for name in RESULTS:
            for sample in sample_files.read(data / "samples" / name):
                kind = "solution" if sample.is_program else "completion"
                for _ in range(copies):
                    row = {
                        "task_id": sample.problem_id,
                        kind: f"{sample.text}\n# {count}\n",
                        "passed": sample.base_passed,
                    }
                    out.write(json.dumps(row) + "\n")
                    count += 1
    return count


def resident(running: Judges) -> dict[str, float]:
    """The most MiB that each service had at a time."""
    found = {}
    for name, pid in running.pids.items():
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        found[name] = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copies", type=int, default=25, help="of each of the four samples of a problem")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="published data and samples")
    options = parser.parse_args()
    bring(LINES["humaneval"], options.data)
    with tempfile.TemporaryDirectory(prefix="rat-") as place, judges(Path(place), folder.root()) as running:
        file = Path(place) / "samples.jsonl"
        count = write(file, options.data, options.copies)
        started = time.perf_counter()
        done = running.ratchet("evaluate", "--samples", str(file), "--benchmark", "humaneval", timeout=7200)
        took = time.perf_counter() - started
        print(done.stdout, done.stderr)
        most = ", ".join(f"{name} {size:.0f} MiB" for name, size in resident(running).items())
        print(f"{count} samples in {took:.0f} s; at most {most}")


if __name__ == "__main__":
    main()
