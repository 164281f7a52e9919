"""A program in several edits: what a reply says, when an episode ends, and that nothing held out is told."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments import EnvironmentSpec, Episode, Outcome, Task
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.named import environment_of
from ratchet_environments.turns import Reply, Seen
from ratchet_kit.faults import Faults
from ratchet_problems import CallTest, CheckTest, Problem, StdioTest
from ratchet_problems.problem import TestCase
from ratchet_rewards import Grade

SHOWN = (CallTest("[[3, -1]]", "10"), CallTest("[[]]", "0"), CallTest("[[2, 2]]", "8"))
FAILED, PASSED = verdict_pb2.VERDICT_FAILED, verdict_pb2.VERDICT_PASSED


def result(got: str = "", error: str = "", passed: bool = False, held_out: bool = False) -> pb.TestResult:
    return pb.TestResult(passed=passed, got=got, error=error, held_out=held_out)


class Sandbox:
    """A program is the number of tests that it passes, the first so many; the others are as `wrong`."""

    def __init__(self, wrong: pb.TestResult, verdict: verdict_pb2.Verdict.ValueType = FAILED) -> None:
        self.wrong = wrong
        self.verdict = verdict
        self.tests: list[int] = []

    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        return [pb.ExecutionItem(execution=self._execution(program)) for program in programs]

    def _execution(self, program: pb.Program) -> pb.Execution:
        self.tests.append(len(program.tests))
        passed = min(int(program.source), len(program.tests))
        results = [result(passed=True)] * passed + [self.wrong] * (len(program.tests) - passed)
        verdict = PASSED if passed == len(program.tests) else self.verdict
        return pb.Execution(
            verdict=verdict, results=results, tests_passed=passed, tests_total=len(results), detail="what went wrong"
        )


async def play(
    sandbox: Sandbox, tests: tuple[TestCase, ...], *answers: str, turns: int = 3, plugin: Reply | None = None
) -> Episode:
    async with Executor(sandbox) as executor:
        spec = EnvironmentSpec("plugin:mine" if plugin else "edits", turns)
        environment = environment_of(spec, CodeEnvironment(executor), plugin)
        task = Task.of(Problem("p", "Write f.", tests, entry_point="f"), is_program=True)
        episode = await environment.start(task)
        for answer in answers:
            assert episode.outcome is None
            episode = await environment.step(episode, answer)
        return episode


def said(episode: Episode) -> list[str]:
    return [message.content for turn in episode.turns for message in turn.replies]


async def test_an_edit_follows_what_failed_until_all_passes() -> None:
    episode = await play(Sandbox(result("4")), SHOWN, "0", "1", "3")
    assert said(episode) == ["3 of 3 tests fail: f([]): 4, not 0", "2 of 3 tests fail: f([]): 4, not 0"]
    assert [turn.grade.tests_passed for turn in episode.turns] == [0, 1, 3]
    assert episode.outcome == Outcome(Grade("PASSED", 3, 3, "what went wrong"))


async def test_the_last_turn_ends_it_whatever_its_program_does() -> None:
    episode = await play(Sandbox(result("4")), SHOWN, "2", "1", turns=2)
    assert episode.outcome == Outcome(Grade("FAILED", 1, 3, "what went wrong"))
    assert len(said(episode)) == 1


async def test_what_is_held_out_is_graded_and_never_told() -> None:
    held = (CallTest("[[9]]", "81", held_out=True), CallTest("[[7]]", "49", held_out=True))
    sandbox = Sandbox(result("4"))
    episode = await play(sandbox, (*SHOWN, *held), "2")
    assert said(episode) == ["1 of 3 tests fail: f([2, 2]): 4, not 8"]
    assert episode.turns[0].grade == Grade("FAILED", 2, 5, "what went wrong")
    assert sorted(sandbox.tests) == [3, 5]
    # All that may be shown passes: the episode ends, whether or not what is held out does.
    for answer in ("3", "5"):
        assert (await play(sandbox, (*SHOWN, *held), answer)).outcome is not None
    assert (await play(sandbox, held, "0")).outcome == Outcome(Grade("FAILED", 0, 2, "what went wrong"))


async def test_who_tampers_gets_no_second_answer() -> None:
    episode = await play(Sandbox(result(), verdict_pb2.VERDICT_TAMPERED), SHOWN, "0")
    assert episode.outcome is not None
    assert episode.outcome.grade.verdict == "TAMPERED"


@pytest.mark.parametrize(
    ("test", "wrong", "expected"),
    [
        (CallTest("[1, 'a']", "", raises="ValueError"), result("3"), "f(1, 'a'): 3, not raises ValueError"),
        (CallTest("[1]", "2"), result(error="KeyError: 1"), "f(1): KeyError: 1, not 2"),
        (StdioTest("1\n", "2\n"), result("3\n"), "on input '1\\n': '3\\n', not '2\\n'"),
        (CheckTest("assert f(1) == 2"), result(error="AssertionError"), "AssertionError"),
        (CheckTest("assert f(1) == 2"), result(), "a test fails"),
    ],
)
async def test_each_kind_of_test_says_what_it_saw(test: TestCase, wrong: pb.TestResult, expected: str) -> None:
    assert said(await play(Sandbox(wrong), (test,), "0")) == [f"1 of 1 tests fail: {expected}"]


async def test_a_reply_is_short_whatever_a_program_gives() -> None:
    [reply] = said(await play(Sandbox(result("x" * 5000)), (CallTest(f"['{'1' * 5000}']", f"'{'2' * 5000}'"),), "0"))
    assert len(reply) < 700


async def test_a_program_that_came_to_no_test_is_told_why() -> None:
    sandbox = Sandbox(result())
    sandbox._execution = lambda program: pb.Execution(  # type: ignore[method-assign]
        verdict=verdict_pb2.VERDICT_COMPILE_ERROR, tests_total=3, detail="SyntaxError: line 1"
    )
    assert said(await play(sandbox, SHOWN, "0")) == ["3 of 3 tests fail: SyntaxError: line 1"]


async def test_a_plugin_says_what_is_told_and_when_it_ends() -> None:
    seen: list[Seen] = []

    async def reply(one: Seen) -> str | None:
        seen.append(one)
        return None if len(one.answers) == 2 else "shorter"

    held_out = CallTest("[[9]]", "9", held_out=True)
    episode = await play(Sandbox(result("4")), (*SHOWN, held_out), "3", "1", turns=4, plugin=reply)
    assert said(episode) == ["shorter"]  # it goes on after what passes, where it likes
    assert [(list(one.answers), one.ran.grade.passed, one.failing) for one in seen] == [
        (["3"], True, []),
        (["3", "1"], False, ["f([]): 4, not 0", "f([2, 2]): 4, not 8"]),
    ]
    assert [turn.grade.tests_passed for turn in episode.turns] == [3, 1]  # of all four
    assert episode.outcome == Outcome(Grade("FAILED", 1, 4, "what went wrong"))


async def test_a_plugin_speaks_of_a_problem_without_tests_to_show_and_never_after_the_last_turn() -> None:
    async def reply(one: Seen) -> str | None:
        assert (one.ran.grade.verdict, one.failing, one.tests) == ("UNTESTED", [], ())
        return "go on"

    held_out = CallTest("[[9]]", "9", held_out=True)
    episode = await play(Sandbox(result("4")), (held_out,), "0", "0", turns=2, plugin=reply)
    assert said(episode) == ["go on"]


def test_a_spec_names_an_environment_that_there_is() -> None:
    faults = Faults()
    EnvironmentSpec("edit", 1).check(faults)
    assert [fault.field for fault in faults.violations] == ["name", "max_turns"]
    assert EnvironmentSpec("edits").completed() == EnvironmentSpec("edits", 3)
    plugin, where = EnvironmentSpec("plugin:mine"), Faults()
    plugin.check(where, plugins=True)
    assert (plugin.plugin, where.violations) == ("mine", ())
    plugin.check(where)
    assert [fault.description for fault in where.violations] == [
        "must be one of edits, harness, tools: plug-ins are of training, and play in its validations"
    ]


def test_who_plays_on_task_folders_is_checked() -> None:
    def fields(spec: EnvironmentSpec) -> list[str]:
        where = Faults()
        spec.check(where)
        return [fault.field for fault in where.violations]

    harness = EnvironmentSpec("harness", command=("python", "agent.py"), files={"agent.py": "", "lib/a.py": ""})
    assert (fields(harness), harness.completed()) == ([], harness)
    assert fields(EnvironmentSpec("harness", 3)) == ["max_turns", "command"]
    wrong = replace(harness, command=("a", "b\0"), files=dict.fromkeys(("../a", "/a", "a/", ".", "a\n", "fine"), ""))
    assert fields(wrong) == ["command", "files.../a", "files./a", "files.a/", "files..", "files.a\n"]
    assert fields(replace(harness, files={"a": "x" * (1 << 20)})) == ["files"]
    assert fields(replace(harness, files={str(place): "" for place in range(201)})) == ["files"]
    tools = EnvironmentSpec("tools")
    assert (fields(tools), tools.completed().max_turns) == ([], 20)
    served = replace(tools, command=("python", "/tmp/harness/server.py"), files={"server.py": ""})
    assert (fields(served), served.completed().max_turns) == ([], 20)
    assert fields(replace(tools, max_turns=201, files={"server.py": ""})) == ["max_turns", "command"]
    assert fields(EnvironmentSpec("edits", command=("x",))) == ["command"]
    assert fields(replace(tools, command=("mcp:search", "python"))) == ["command"]
    assert fields(replace(tools, command=("mcp:search", "mcp:maps"))) == []


def test_tool_servers_are_those_of_the_operator() -> None:
    def said(*command: str, name: str = "tools") -> list[str]:
        where = Faults()
        EnvironmentSpec(name, command=command).check_tool_servers(where, ["search", "maps"])
        return [fault.description for fault in where.violations]

    assert said("mcp:search", "mcp:maps") == said("python", "server.py") == said("mcp:x", name="harness") == []
    rule = "must name tool servers of the operator (RATCHET_TOOL_SERVERS: maps, search), not 'books'"
    assert said("mcp:search", "mcp:books") == [rule]
