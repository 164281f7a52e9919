"""What counts against a program's limits, and what doesn't."""

import contextlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from datetime import timedelta

import pytest

from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import CallTest, CheckTest, Limits, Program, StdioTest, Test
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=1), memory_bytes=256 << 20, output_bytes=64 << 10)
TESTS = (CallTest((1,), 2),)


async def run(sandbox: Sandbox, source: str, *tests: Test, limits: Limits = LIMITS, **more: object) -> Execution:
    program = Program("p", textwrap.dedent(source), "f", tests or TESTS, limits=limits, **more)  # type: ignore[arg-type]
    return await sandbox.execute(program)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("test", [CallTest((1,), 2), CheckTest("assert f(1) == 2")], ids=["call", "check"])
async def test_output_that_nobody_judges_is_cut(sandbox: Sandbox, test: Test, stream: str) -> None:
    source = f"import sys\ndef f(x):\n    sys.{stream}.write('debug ' * 70_000)\n    return x + 1\n"
    execution = await run(sandbox, source, test)
    assert execution.verdict is Verdict.PASSED, execution
    assert execution.output_cut
    assert getattr(execution, stream) == ("debug " * 70_000)[: 64 << 10]


async def test_output_within_its_limit_is_whole(sandbox: Sandbox) -> None:
    execution = await run(sandbox, "def f(x):\n    print('x' * 60_000)\n    return x + 1\n")
    assert execution.verdict is Verdict.PASSED
    assert not execution.output_cut


async def test_a_script_may_print_what_is_expected_whatever_its_limit(sandbox: Sandbox) -> None:
    numbers = "".join(f"{i}\n" for i in range(40_000))
    test = StdioTest("x" * (2 << 20), numbers)
    right = "import sys\nassert len(input()) == 2 << 20\nfor i in range(40_000): print(i, end=' \\r\\n')\n"
    execution = await run(sandbox, right, test)
    assert execution.verdict is Verdict.PASSED, execution
    assert (len(execution.stdout), execution.output_cut) == (64 << 10, True)
    wrong = await run(sandbox, right.replace("print(i,", "print(i ^ (i == 39_999),"), test)
    assert wrong.verdict is Verdict.FAILED
    endless = await run(sandbox, "while True: print('x' * 1000)", test)
    assert endless.verdict is Verdict.OUTPUT_LIMIT


async def test_of_a_script_stdout_is_judged_and_stderr_is_not(sandbox: Sandbox) -> None:
    loud = "import sys\nprint('d' * 200_000, file=sys.{})\nprint(2)\n"
    execution = await run(sandbox, loud.format("stderr"), StdioTest("", "2"))
    assert execution.verdict is Verdict.PASSED, execution
    assert execution.output_cut
    execution = await run(sandbox, loud.format("stdout"), StdioTest("", "2"))
    assert execution.verdict is Verdict.OUTPUT_LIMIT


async def test_answers_count_one_by_one(sandbox: Sandbox) -> None:
    tests = [CallTest((n,), list(range(n, n + 6000))) for n in range(1000, 1040)]
    execution = await run(sandbox, "def f(n): return list(range(n, n + 6000))", *tests)
    assert execution.verdict is Verdict.PASSED, execution.detail


async def test_an_answer_beyond_its_limit_is_that_tests_fault_alone(sandbox: Sandbox) -> None:
    execution = await run(sandbox, "def f(n): return 'x' * n", *(CallTest((n,), "x" * n) for n in (3, 5_000_000, 4)))
    assert execution.verdict is Verdict.OUTPUT_LIMIT
    assert [result.passed for result in execution.results] == [True, False, True]
    assert execution.results[1].error == "answered with more than 4096 KiB"


async def test_answers_together_have_a_limit_too(sandbox: Sandbox) -> None:
    execution = await run(sandbox, "def f(n): return 'x' * 4_000_000", *(CallTest((n,), 2) for n in range(10)))
    assert execution.verdict is Verdict.FAILED  # as the first answer was wrong
    assert "its answers together" in execution.results[-1].error


@contextlib.contextmanager
def _hogs(count: int) -> Iterator[None]:
    """Processes that compute all the time, each in a session of its own and so with a share of its own."""
    each = [
        subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"], start_new_session=True) for _ in range(count)
    ]
    try:
        yield
    finally:
        for hog in each:
            hog.kill()
        for hog in each:
            hog.wait()


@pytest.mark.alone
@pytest.mark.parametrize("processes", [False, True])
async def test_a_program_that_waits_for_the_processor_does_not_idle(sandbox: Sandbox, processes: bool) -> None:
    limits = Limits(cpu_time=timedelta(seconds=0.5), memory_bytes=256 << 20)
    source = "def f(x):\n    return sum(range(2_000_000)) * 0 + x + 1\n"
    with _hogs(25 * len(os.sched_getaffinity(0))):
        execution = await run(sandbox, source, limits=limits, processes=processes)
    assert execution.verdict is Verdict.PASSED, execution


async def test_a_program_that_works_now_and_then_idles(sandbox: Sandbox) -> None:
    source = """
        import time
        def f(x):
            while True:
                sum(range(50_000))
                time.sleep(0.03)
        """
    execution = await run(sandbox, source)
    assert execution.verdict is Verdict.TIME_LIMIT
    assert execution.wall_time < timedelta(seconds=4)


_BUSY = (
    "import time\ndef busy(s):\n    started = time.process_time()\n    while time.process_time() < started + s: pass\n"
)


@pytest.mark.parametrize("processes", [False, True])
async def test_what_tests_compute_is_not_the_programs(sandbox: Sandbox, processes: bool) -> None:
    good = "def f(x):\n    return x + 1\n"
    execution = await run(sandbox, good, CheckTest(_BUSY + "busy(0.7)\nassert f(1) == 2"), processes=processes)
    assert execution.verdict is Verdict.PASSED, execution
    assert execution.cpu_time < timedelta(seconds=0.3)
    busy = _BUSY + "def f(x):\n    busy(0.7)\n    return x + 1\n"
    execution = await run(sandbox, busy, CheckTest(_BUSY + "busy(0.7)\nassert f(1) == 2"), processes=processes)
    assert execution.verdict is Verdict.PASSED, execution
    assert timedelta(seconds=0.6) < execution.cpu_time < timedelta(seconds=1)
    execution = await run(sandbox, good, CheckTest("while f(1) == 2: pass\nassert f(1) == 3"), processes=processes)
    assert execution.verdict is Verdict.TIME_LIMIT, execution


async def test_time_of_children_that_nobody_waits_for(sandbox: Sandbox, executor: LanePool) -> None:
    if not executor.capabilities.processes:
        pytest.skip("programs can't start processes here")
    source = """
        import os, signal, time
        def f(x):
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            for _ in range(40):
                reader, writer = os.pipe()
                if os.fork() == 0:
                    started = time.process_time()
                    while time.process_time() < started + 0.012: pass
                    os._exit(0)
                os.close(writer)
                os.read(reader, 1)
                os.close(reader)
            return x + 1
        """
    execution = await run(sandbox, source, processes=True)
    assert execution.verdict is Verdict.PASSED, execution
    assert execution.cpu_time > timedelta(seconds=0.45)


STACKS = {
    "a_thread_with_512_MiB": """
        import threading
        threading.stack_size(2**29 - 4096)
        def f(x):
            out = []
            thread = threading.Thread(target=lambda: out.append(x + 1))
            thread.start()
            thread.join()
            return out[0]
        """,
    "a_hundred_threads": """
        import threading
        def f(x):
            event = threading.Event()
            threads = [threading.Thread(target=event.wait) for _ in range(100)]
            for thread in threads: thread.start()
            event.set()
            for thread in threads: thread.join()
            return x + 1
        """,
    "recursion": """
        import sys
        sys.setrecursionlimit(10**6)
        def deep(n): return 0 if n == 0 else 1 + deep(n - 1)
        def f(x): return deep(100_000) - 99_998 + x - 1
        """,
    "recursion_through_c": """
        import sys
        sys.setrecursionlimit(10**6)
        def deep(n): return 0 if n == 0 else 1 + max(map(deep, [n - 1]))
        def f(x): return deep(50_000) - 49_998 + x - 1
        """,
}


@pytest.mark.parametrize("name", STACKS)
async def test_stacks_that_people_ask_for(sandbox: Sandbox, name: str) -> None:
    execution = await run(sandbox, STACKS[name], limits=Limits())
    assert execution.verdict is Verdict.PASSED, execution


async def test_memory_that_was_there_for_a_moment_counts(sandbox: Sandbox) -> None:
    execution = await run(sandbox, "def f(x):\n    return len(b'x' * (700 << 20)) * 0 + x + 1\n")
    assert execution.verdict is Verdict.MEMORY_LIMIT, execution


C = {
    "recursion": ("cpp", """
        #include <cstdio>
        int deep(int n) { volatile char frame[1000]; frame[0] = 1; return n ? deep(n - 1) + frame[0] : 0; }
        int main() { printf("%d", deep(60000) == 60000 ? 2 : 0); }
        """),
    "an_array_with_values": ("c", """
        #include <stdio.h>
        int values[4500000] = {2};
        int main() { printf("%d", values[0]); }
        """),
    "threads": ("cpp", """
        #include <atomic>
        #include <cstdio>
        #include <thread>
        #include <vector>
        int main() {
            std::atomic<int> done{0};
            std::vector<std::thread> threads;
            for (int i = 0; i < 60; i++)
                threads.emplace_back([&] { volatile char frame[4000000]; frame[5] = 1; done += frame[5]; });
            for (auto& thread : threads) thread.join();
            printf("%d", done == 60 ? 2 : 0);
        }
        """),
    "a_stack_of_its_own_choice": ("cpp", """
        #include <cstdio>
        #include <sys/resource.h>
        int main() {
            rlimit most;
            getrlimit(RLIMIT_STACK, &most);
            most.rlim_cur = 256 << 20;
            puts(setrlimit(RLIMIT_STACK, &most) ? "no" : "2");
        }
        """),
}  # fmt: skip


@pytest.mark.parametrize("name", C)
async def test_what_c_programs_ask_for(sandbox: Sandbox, executor: LanePool, name: str) -> None:
    language, source = C[name]
    if language not in {runtime.language for runtime in (await executor.describe()).runtimes}:
        pytest.skip(f"there is no {language} here")
    execution = await run(sandbox, source, StdioTest("", "2"), limits=Limits(), language=language)
    assert execution.verdict is Verdict.PASSED, execution
