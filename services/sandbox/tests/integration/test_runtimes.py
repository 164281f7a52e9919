"""Python environments beside the standard library: programs find their packages, and nothing else is different."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ratchet_kit.errors import Unimplemented
from ratchet_testing.processes import children
from sandbox_service.adapters.lanes.options import LaneOptions
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import CallTest, CheckTest, File, Limits, Program, StdioTest
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=2), memory_bytes=256 << 20)


def need(executor: LanePool, name: str) -> None:
    if name not in {runtime.name for runtime in executor.capabilities.runtimes}:
        pytest.skip(f"the runtime {name} isn't built here: scripts/setup.sh sandbox-{name}")


async def script(sandbox: Sandbox, source: str, **more: object) -> Execution:
    return await sandbox.execute(replace(Program("p", source, limits=LIMITS), **more))  # type: ignore[arg-type]


async def test_numpy_is_chosen_and_works(sandbox: Sandbox, executor: LanePool) -> None:
    need(executor, "numpy")
    source = "import numpy as np\ndef f(n):\n    return np.linalg.inv(np.eye(n)).sum().item()\n"
    tests = (CallTest((3,), 3.0), CheckTest("import numpy as np\nassert np.isclose(f(4), 4)"))
    execution = await sandbox.execute(Program("p", source, "f", tests, limits=LIMITS))
    assert (execution.verdict, execution.runtime) == (Verdict.PASSED, "numpy"), execution


async def test_what_is_masked_is_numpys_own_constant(sandbox: Sandbox, executor: LanePool) -> None:
    need(executor, "numpy")
    source = "import numpy as np\ndef f(place):\n    return np.ma.array([1, 2], mask=[0, 1])[place]\n"
    right = "import numpy as np\nassert f(0) == 1\nassert f(1) is np.ma.masked"
    wrong = ("assert f(1) == 2", "import numpy as np\nassert np.allclose(f(1), 2)", "assert f(1)")
    for code, verdict in ((right, Verdict.PASSED), *((code, Verdict.FAILED) for code in wrong)):
        execution = await sandbox.execute(Program("p", source, "f", (CheckTest(code),), limits=LIMITS))
        assert execution.verdict is verdict, (code, execution)
    for expected in (None, 2, [], 0.0):
        execution = await sandbox.execute(Program("p", source, "f", (CallTest((1,), expected),), limits=LIMITS))
        assert execution.verdict is Verdict.FAILED, execution


@pytest.mark.parametrize(
    "held", ["(np.array(f(1)) == 5).all()", "np.isin(f(1), [5]).all()", "np.all(np.array(f(1)) > 4)"]
)
async def test_an_all_over_nothing_is_no_comparison(sandbox: Sandbox, executor: LanePool, held: str) -> None:
    need(executor, "numpy")
    for answer, verdict in (("[]", Verdict.FAILED), ("[5]", Verdict.PASSED)):
        test = CheckTest(f"import numpy as np\nassert {held}")
        source = f"def f(x):\n    return {answer}"
        execution = await sandbox.execute(Program("p", source, "f", (test,), limits=LIMITS))
        assert execution.verdict is verdict, execution


async def test_a_program_without_it_runs_without_it(sandbox: Sandbox, executor: LanePool) -> None:
    need(executor, "numpy")
    execution = await script(sandbox, "import sys\nprint('numpy' in sys.modules, '/packages' in sys.path)")
    assert (execution.stdout, execution.runtime) == ("False False\n", "python")


async def test_random_numbers_are_the_same_each_time(sandbox: Sandbox, executor: LanePool) -> None:
    need(executor, "numpy")
    source = "import numpy, random\nprint(numpy.random.rand(), random.random())"
    printed = {(await script(sandbox, source)).stdout for _ in range(4)}
    assert len(printed) == 1


async def test_memory_counts_without_what_the_runtime_takes(sandbox: Sandbox, executor: LanePool) -> None:
    need(executor, "numpy")
    fits = await script(sandbox, "import numpy\nprint(numpy.ones(24 << 20).sum())")
    assert fits.verdict is Verdict.PASSED, fits  # 192 MiB of 256
    bomb = await script(sandbox, "import numpy\nprint(numpy.ones(34 << 20).sum())")
    assert bomb.verdict is Verdict.MEMORY_LIMIT, bomb


async def test_its_packages_cannot_be_changed(sandbox: Sandbox, executor: LanePool) -> None:
    need(executor, "numpy")
    source = "import numpy, os\nopen(os.path.join(os.path.dirname(numpy.__file__), 'x.py'), 'w')"
    execution = await script(sandbox, source)
    assert execution.verdict is Verdict.RUNTIME_ERROR
    assert "OSError" in execution.detail or "PermissionError" in execution.detail


async def test_one_thread(sandbox: Sandbox, executor: LanePool) -> None:
    need(executor, "numpy")
    source = """
        import time
        import numpy
        a = numpy.ones((600, 600))
        clock, cpu = time.perf_counter(), time.process_time()
        for _ in range(5): a @ a
        print(time.process_time() - cpu <= 1.2 * (time.perf_counter() - clock) + 0.02)
        """
    assert (await script(sandbox, source.replace("\n        ", "\n"))).stdout == "True\n"


async def test_processes_with_packages(sandbox: Sandbox, executor: LanePool) -> None:
    need(executor, "numpy")
    if not executor.capabilities.processes:
        pytest.skip("programs can't start processes here: that takes namespaces")
    source = """
        import multiprocessing, subprocess, sys
        import numpy
        with multiprocessing.Pool(2) as pool: print(pool.map(numpy.sqrt, [4.0, 9.0]))
        print(subprocess.check_output([sys.executable, "-c", "import numpy; print(numpy.ones(3).sum())"]).decode())
        """
    execution = await script(sandbox, source.replace("\n        ", "\n"), processes=True)
    assert execution.verdict is Verdict.PASSED, execution
    assert execution.stdout.split() == ["[np.float64(2.0),", "np.float64(3.0)]", "3.0"]


@pytest.mark.parametrize("processes", [False, True], ids=["plain", "processes"])
async def test_its_own_words_and_nothing_else_of_proc(sandbox: Sandbox, executor: LanePool, processes: bool) -> None:
    """What libraries read of the process that they are in, TensorFlow for one: /proc/self/cmdline."""
    need(executor, "numpy")
    if processes and not executor.capabilities.processes:
        pytest.skip("programs can't start processes here: that takes namespaces")
    source = """
        import numpy, os, sys
        def opened(path, flags):
            try: return not os.close(os.open(path, flags))
            except OSError: return False
        names = "mem maps environ status fd auxv stat mountinfo task oom_score_adj root/etc/passwd".split()
        paths = [f"/proc/{pid}/{name}" for pid in ("self", "thread-self", 1, os.getpid()) for name in names]
        paths += [f"/proc/{pid}/cmdline" for pid in range(64) if pid != os.getpid()]
        paths += ["/proc", "/proc/self", "/proc/self/task/1/cmdline", "/proc/thread-self/cmdline", "/proc/meminfo"]
        found = [path for path in paths for flags in (os.O_RDONLY, os.O_WRONLY) if opened(path, flags)]
        words = open("/proc/self/cmdline").read().split(chr(0))[:-1]
        print(words == sys.orig_argv, opened("/proc/self/cmdline", os.O_WRONLY), found, flush=True)
        """
    source = source.replace("\n        ", "\n")
    if processes:
        source += "if os.fork() == 0: os._exit(opened('/proc/self/cmdline', os.O_RDONLY))\nprint(os.wait()[1])\n"
    execution = await script(sandbox, source, processes=processes)
    assert (execution.verdict, execution.runtime) == (Verdict.PASSED, "numpy"), execution
    assert execution.stdout == "True False []\n" + "0\n" * processes


async def test_science(sandbox: Sandbox, executor: LanePool) -> None:
    need(executor, "science")
    source = """
        import matplotlib.pyplot as plt
        import pandas as pd
        from scipy import stats
        from sklearn.linear_model import LinearRegression
        table = pd.read_csv("data/in.csv")
        model = LinearRegression().fit(table[["x"]], table["y"])
        print(round(float(model.coef_[0]), 6), stats.norm.cdf(0))
        plt.plot(table["x"], table["y"])
        plt.savefig("plot.png")
        """
    execution = await script(
        sandbox,
        source.replace("\n        ", "\n"),
        files=(File("data/in.csv", b"x,y\n1,2\n2,4\n3,6\n"),),
        fetch_files=("plot.png",),
    )
    assert (execution.verdict, execution.runtime) == (Verdict.PASSED, "science"), execution
    assert execution.stdout == "2.0 0.5\n"
    assert execution.files[0].content.startswith(b"\x89PNG")


async def test_a_module_beside_the_program(sandbox: Sandbox) -> None:
    files = (File("helper.py", b"def twice(n):\n    return 2 * n\n"),)
    test = StdioTest("4", "8")
    execution = await script(
        sandbox, "from helper import twice\nprint(twice(int(input())))", files=files, tests=(test,)
    )
    assert execution.verdict is Verdict.PASSED, execution


async def test_a_runtime_that_is_not_here(sandbox: Sandbox) -> None:
    with pytest.raises(Unimplemented, match="runtime 'torch' is not on this node; it has python"):
        await script(sandbox, "", runtime="torch")


async def test_what_the_node_tells_of_it(executor: LanePool) -> None:
    need(executor, "numpy")
    runtime = next(each for each in (await executor.describe()).runtimes if each.name == "numpy")
    assert runtime.language == "python"
    assert runtime.packages["numpy"].count(".") == 2
    assert "numpy" in runtime.modules


async def test_lanes_of_other_kinds_are_given_up_when_there_are_many() -> None:
    before = len(children())
    async with LanePool(LaneOptions(lanes=1)) as executor:
        names = [each.name for each in executor.capabilities.runtimes if each.language == "python"]
        if len(names) < 2 or not executor.capabilities.processes:
            pytest.skip("there are too few kinds of lanes here")
        sandbox = Sandbox(executor, queue_limit=10)
        seen = []
        for _ in range(2):
            for name in names:
                for processes in (False, True):
                    execution = await script(sandbox, "x = 1", runtime=name, processes=processes)
                    assert execution.verdict is Verdict.PASSED, execution
                    seen.append(len(children()) - before)
        assert max(seen) <= 4
