"""What an environment that is a plug-in is given, and what it may say."""

import asyncio
import threading
from typing import Any

import pytest

from ratchet_environments.code import Ran
from ratchet_environments.turns import Seen
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import CallTest, Problem
from ratchet_rewards import Grade
from trainer_service.job.plugins.process import PluginProcess
from trainer_service.job.samples.replies import Replies

PROBLEM = Problem("p", "Add one.", (CallTest("[1]", "2"), CallTest("[9]", "10", held_out=True)), entry_point="f")
SEEN = Seen(PROBLEM, ["a", "b"], PROBLEM.tests[:1], Ran(Grade("FAILED", 0, 1, "wrong")))


async def test_it_is_given_the_problem_the_answers_and_what_may_be_shown() -> None:
    given: list[Any] = []
    with Replies("mine", lambda *arguments: given.append(arguments)) as reply:
        assert await reply(SEEN) is None
    [(problem, answers, result)] = given
    assert (problem["id"], problem["prompt"], "tests" in problem, answers) == ("p", "Add one.", False, ["a", "b"])
    assert result == {
        "passed": False,
        "verdict": "FAILED",
        "tests_passed": 0,
        "tests_total": 1,
        "detail": "wrong",
        "failing": [],
    }


@pytest.mark.parametrize("said", [3, "", " \n", ["a"], True])
async def test_what_is_no_text_is_refused(said: object) -> None:
    with (
        Replies("mine", lambda *arguments: said) as reply,
        pytest.raises(InvalidArgument, match="must give a text, or"),
    ):
        await reply(SEEN)


async def test_one_call_at_a_time_and_none_holds_the_loop_up() -> None:
    open, running = threading.Event(), list[int]()

    def wait(*arguments: Any) -> str:
        running.append(1)
        assert open.wait(5)
        return "again"

    with Replies("mine", wait) as reply:
        both = asyncio.gather(reply(SEEN), reply(SEEN))
        await asyncio.sleep(0.05)
        assert running == [1]
        open.set()
        assert await both == ["again", "again"]


async def test_a_plugin_of_a_template_replies_from_its_own_process(make_plugin: Any) -> None:
    source = "def mine(problem, answers, result): return f\"{problem['id']} {len(answers)} {result['verdict']}\""
    make_plugin("mine", source, environment="mine")
    with PluginProcess("environment", "mine") as call, Replies("mine", call) as reply:
        assert await reply(SEEN) == "p 2 FAILED"
