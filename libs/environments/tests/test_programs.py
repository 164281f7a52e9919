from datetime import timedelta

from ratchet.common.v1 import problem_pb2 as pb
from ratchet_environments import Limits, Task
from ratchet_environments.programs import program_for
from ratchet_problems.problem import CallTest, CheckTest, Problem, StdioTest


def test_every_kind_of_test_crosses() -> None:
    tests = (CallTest("[1]", "2", 0.5), StdioTest("in", "out", tolerance=1e-6), CheckTest("assert f(1) == 2"))
    task = Task.of(Problem("p", "Write f.", tests, entry_point="f"), runtime="numpy")
    program = program_for(task, "def f(x): return 2", program_id="s1")
    assert (program.id, program.entry_point, program.source) == ("s1", "f", "def f(x): return 2")
    assert program.tests[0].call == pb.CallTest(args="[1]", expected="2", tolerance=0.5)
    assert program.tests[1].stdio == pb.StdioTest(stdin="in", expected_stdout="out", tolerance=1e-6)
    assert program.tests[2].check == pb.CheckTest(code="assert f(1) == 2")
    assert not program.limits.HasField("cpu_time")
    assert program.runtime == "numpy"


def test_limits_cross() -> None:
    problem = Problem("p", "Write f.", (CallTest("[1]", "2"),), entry_point="f")
    task = Task.of(problem, limits=Limits(timedelta(seconds=3), 1 << 30, 1 << 20, processes=True))
    program = program_for(task, "def f(x): return 2")
    assert program.limits.cpu_time.ToTimedelta() == timedelta(seconds=3)
    assert (program.limits.memory_bytes, program.limits.output_bytes) == (1 << 30, 1 << 20)
    assert program.processes
    assert not program_for(Task.of(problem), "").processes


def test_a_prompt_that_begins_the_program_is_part_of_it() -> None:
    prompt = 'def f(x):\n    """One more."""\n'
    problem = Problem("p", prompt, (CallTest("[1]", "2"),), entry_point="f")
    assert program_for(Task.of(problem), "    return x + 1\n").source == prompt + "    return x + 1\n"
    assert program_for(Task.of(problem), "def f(x): return 2\n").source == "def f(x): return 2\n"


def test_a_method_of_a_class_the_prompt_begins() -> None:
    prompt = "class Solution:\n    def f(self, x):\n"
    problem = Problem("p", prompt, (CallTest("[1]", "2"),), entry_point="Solution.f")
    assert program_for(Task.of(problem), "        return x + 1\n").source == prompt + "        return x + 1\n"
    again = "```python\nclass Solution:\n    def f(self, x): return 2\n```"
    assert program_for(Task.of(problem), again).source == "class Solution:\n    def f(self, x): return 2\n"


def test_limits_are_set_where_given() -> None:
    problem = Problem("p", "Write f.", (CallTest("[1]", "2"),), entry_point="f")
    limits = program_for(Task.of(problem, limits=Limits(timedelta(seconds=1.5), 1 << 28)), "").limits
    assert limits.cpu_time.ToTimedelta() == timedelta(seconds=1.5)
    assert limits.memory_bytes == 1 << 28
