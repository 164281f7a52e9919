"""Programs that call models, unmodified, on task folders: a real sandbox, an engine in memory."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from ratchet_environments import EnvironmentSpec
from ratchet_environments.folders import judging
from ratchet_environments.folders.folder import TaskFolder, read
from ratchet_environments.folders.tree import File
from ratchet_episodes import Episode, Harness, harness_of, record, run
from ratchet_kit.errors import InvalidArgument, Unavailable
from ratchet_kit.tool_servers import ToolServer
from ratchet_kit.work import Priority
from ratchet_policies import ChatPrompt, Delta, Sampling
from ratchet_problems import Message, ToolCall
from ratchet_sessions.door import Seat
from ratchet_testing.memory_engine import POLICY, MemoryEngine
from ratchet_testing.workspaces import served

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

EXAMPLES = Path(__file__).parents[3] / "examples/tasks"
AGENT = """
import json, os, subprocess, sys, urllib.request

def ask(messages):
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "any", "messages": messages}).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"},
    )
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]

messages = [{"role": "user", "content": open("/tmp/instruction.md").read()}]
for turn in range(2):
    answer = ask(messages)
    done = subprocess.run(["bash", "-c", answer["content"]], capture_output=True, text=True)
    messages += [answer, {"role": "user", "content": done.stdout + done.stderr}]
print("turns", turn + 1)
"""
ASKED_AGAIN = """
    try:
        answer = ask(messages)
    except OSError:
        answer = ask(messages)
"""
WRONG = [Message("assistant", "true"), Message("assistant", "echo > people.json")]
SOLUTION = (EXAMPLES / "csv-to-json/solution/solve.sh").read_text()


class Hiccup(MemoryEngine):
    """Its first answer fails."""

    async def stream(
        self, name: str, policy_id: str, prompt: ChatPrompt, sampling: Sampling, priority: Priority = Priority.NORMAL
    ) -> AsyncGenerator[Delta]:
        if not self.samplings:
            self.samplings.append(sampling)
            raise Unavailable("the engine starts")
        async for delta in super().stream(name, policy_id, prompt, sampling, priority):
            yield delta


def task() -> TaskFolder:
    return read(EXAMPLES / "csv-to-json")


async def episode(target: str, engine: MemoryEngine, program: str = AGENT, *, forgeable: bool = False) -> Episode:
    harness = Harness(("python", "/tmp/harness/agent.py"), {"agent.py": File(program.encode())})
    seats = {"": Seat(engine, "p", Sampling(), POLICY)}
    async with served(target) as workspaces:
        return await run(workspaces, task(), harness, seats, forgeable=forgeable)


async def test_a_task_that_is_solved_has_its_reward_and_each_call_its_tokens(sandbox_target: str) -> None:
    engine = MemoryEngine(says=[Message("assistant", "ls"), Message("assistant", SOLUTION)])
    found = await episode(sandbox_target, engine)
    assert (found.done.succeeded, found.done.stdout, found.reward, found.fault) == (True, b"turns 2\n", 1.0, "")
    (path,) = found.session.paths()
    assert path.calls == (0, 1)
    first, second = found.session.calls
    assert second.question.messages[0].content == task().instruction
    assert "people.csv" in second.question.messages[-1].content  # what its first command printed
    assert [second.token_ids, first.token_ids] == [engine.samples[1].token_ids, engine.samples[0].token_ids]
    kept = record.from_json(record.unpack(record.pack(record.to_json(record.record_of(task(), found)))))
    assert (kept.session, kept.verdict, kept.ended.how) == (found.session, found.judged, "status 0")
    async with served(sandbox_target) as workspaces:
        again = await judging.judge(workspaces, task(), record.work_of(task(), kept))
    assert (again.reward, again.reason) == (1.0, kept.verdict and kept.verdict.reason)
    assert [
        (one.path, one.kind, one.diff.startswith("--- /dev/null\n+++ b/app/people.json")) for one in kept.changes
    ] == [("app/people.json", "added", True)]


async def test_a_task_that_is_not_solved_has_none_and_a_program_that_fails_is_judged(sandbox_target: str) -> None:
    found = await episode(sandbox_target, MemoryEngine(says=[*WRONG]), AGENT + "sys.exit(3)")
    assert (found.done.ending, found.reward, found.fault) == ("status 3", 0.0, "")


async def test_a_fault_of_the_platform_is_no_verdict(sandbox_target: str) -> None:
    """Its program went on without the answer, and left what the solution leaves: no reward all the same."""
    engine = MemoryEngine(lies="dies")
    tolerant = f"try:\n    exec({AGENT!r})\nexcept OSError:\n    pass\n"
    solving = f"import subprocess; subprocess.run(['bash', '-c', {SOLUTION!r}])"
    found = await episode(sandbox_target, engine, tolerant + solving)
    assert found.done.succeeded
    assert (found.judged, found.reward) == (None, None)
    assert found.fault == "1 calls got no answer: the engine is gone"


async def test_a_question_that_is_asked_again_was_answered(sandbox_target: str) -> None:
    again = AGENT.replace("answer = ask(messages)", ASKED_AGAIN)
    found = await episode(sandbox_target, Hiccup(says=[Message("assistant", SOLUTION)]), again)
    assert len(found.session.failed) == 1
    assert (found.fault, found.reward) == ("", 1.0)


async def test_a_request_that_is_wrong_is_the_programs(sandbox_target: str) -> None:
    wrong = AGENT.replace('"messages": messages}', '"messages": []}')
    found = await episode(sandbox_target, MemoryEngine(), wrong)
    assert (found.done.ending, found.fault, found.reward) == ("status 1", "", 0.0)


async def test_a_command_that_can_not_start_is_an_error(sandbox_target: str) -> None:
    async with served(sandbox_target) as workspaces:
        with pytest.raises(InvalidArgument, match="no-such-program can't be started in the workspace"):
            await run(workspaces, task(), Harness(("no-such-program",)), {})


def calling(*calls: tuple[str, dict[str, object]]) -> Message:
    made = tuple(
        ToolCall(name, json.dumps(arguments), f"call{place}", place) for place, (name, arguments) in enumerate(calls)
    )
    return Message("assistant", "", made)


async def with_tools(target: str, engine: MemoryEngine, turns: int = 20) -> Episode:
    seats = {"": Seat(engine, "p", Sampling(), POLICY)}
    async with served(target) as workspaces:
        return await run(workspaces, task(), harness_of(EnvironmentSpec("tools", turns)), seats)


async def test_a_model_works_with_tools_in_its_own_calls(sandbox_target: str) -> None:
    engine = MemoryEngine(
        says=[
            calling(("bash", {"command": "ls; exit 3"}), ("read", {"path": "people.csv", "line": 2})),
            calling(("search", {"pattern": "^name", "path": "."}), ("run_python", {"code": "print(6 * 7)"})),
            calling(("write", {"path": "new/solve.sh", "content": SOLUTION.replace("people", "nobody")})),
            calling(("patch", {"path": "new/solve.sh", "old": "set -", "new": "set -e"}), ("no_tool", {})),
            calling(("patch", {"path": "new/solve.sh", "old": "", "new": ""}), ("read", {"file": "x"})),
            calling(("bash", {"command": SOLUTION})),
            calling(("submit", {})),
        ]
    )
    found = await with_tools(sandbox_target, engine)
    assert (found.reward, found.fault, len(found.session.calls)) == (1.0, "", 7)
    (path,) = found.session.paths()
    assert len(path.calls) == 7
    results = [one.content for one in found.session.calls[-1].question.messages if one.role == "tool"]
    assert "people.csv" in results[0]
    assert results[0].endswith("(status 3)")
    assert results[2].startswith("./people.csv:1: name")
    assert results[3] == "42\n"
    assert results[4].startswith("new/solve.sh has ")
    assert "error: there is no tool no_tool" in results[6]
    assert results[7].startswith("error: old stands")
    assert results[8].startswith("error: read() got an unexpected keyword")
    assert record.tool_errors(found.session) == 3


async def test_no_call_of_a_tool_ends_an_episode(sandbox_target: str) -> None:
    """Neither what it finds nor what it is asked."""
    odd = {"command": "echo found > $'odd\\xff.txt'; head -c 20000000 /dev/zero > big"}
    engine = MemoryEngine(
        says=[
            calling(("bash", odd), ("search", {"pattern": "found"}), ("read", {"path": "/dev/zero"})),
            calling(("read", {"path": "big"}), ("read", {"path": 1}), ("bash", {"command": "\ud800"})),
            calling(("bash", {"command": SOLUTION}), ("submit", {})),
        ]
    )
    found = await with_tools(sandbox_target, engine)
    assert (found.reward, found.fault, len(found.session.calls)) == (1.0, "", 3), found.done


async def test_a_model_that_never_submits_is_ended_after_its_turns(sandbox_target: str) -> None:
    engine = MemoryEngine(says=[calling(("bash", {"command": "true"}))] * 5)
    found = await with_tools(sandbox_target, engine, turns=3)
    assert (len(found.session.calls), found.done.succeeded, found.reward) == (3, True, 0.0)


async def test_a_model_that_takes_no_tools_is_no_wrong_answer(sandbox_target: str) -> None:
    class Without(MemoryEngine):
        def render(self, prompt: ChatPrompt) -> list[int]:
            raise InvalidArgument("it has no parser of tools")

    with pytest.raises(InvalidArgument, match="can't be given the tools: it has no parser of tools"):
        await with_tools(sandbox_target, Without())


SERVER = """
import json, sys

TOOL = {"name": "age", "description": "How old one is.", "inputSchema": {"type": "object"}}
for line in sys.stdin:
    asked = json.loads(line)
    reply = {"jsonrpc": "2.0", "id": asked.get("id")}
    if asked["method"] == "tools/list":
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))
        print(json.dumps(reply | {"result": {"tools": [TOOL], "resultType": "complete"}}), flush=True)
    elif asked["params"]["arguments"].get("name") == "Ada":
        text = [{"type": "text", "text": "Ada is 36."}]
        print(json.dumps(reply | {"result": {"content": text, "isError": False}}), flush=True)
    elif asked["params"]["arguments"]:
        print(json.dumps(reply | {"error": {"code": -32602, "message": "nobody of that name"}}), flush=True)
    else:
        break
"""


async def served_by(target: str, engine: MemoryEngine, *command: str, server: str = SERVER) -> Episode:
    environment = EnvironmentSpec("tools", command=command, files={"server.py": server})
    seats = {"": Seat(engine, "p", Sampling(), POLICY)}
    async with served(target) as workspaces:
        return await run(workspaces, task(), harness_of(environment), seats)


async def test_tools_of_a_server_are_offered_beside_ours(sandbox_target: str) -> None:
    asked = [("age", {"name": "Ada"}), ("age", {"name": "Bob"}), ("age", {}), ("age", {"name": "Ada"})]
    engine = MemoryEngine(says=[calling(*asked), calling(("submit", {}))])
    found = await served_by(sandbox_target, engine, "python", "/tmp/harness/server.py")
    first, last = found.session.calls[0].question, found.session.calls[-1].question
    assert first.tools is not None
    assert [tool.name for tool in first.tools.offered][-2:] == ["submit", "age"]
    ended = "error: python, which serves the tools, has ended; the next call starts it again"
    results = [one.content for one in last.messages if one.role == "tool"]
    assert results == ["Ada is 36.", "error: nobody of that name", ended, "Ada is 36."]


async def searched(target: str, engine: MemoryEngine, url: str) -> Episode:
    """An episode with the operator's server "search"."""
    named = {"search": ToolServer.model_validate({"url": url})}
    harness = harness_of(EnvironmentSpec("tools", command=("mcp:search",)), named)
    async with served(target) as workspaces:
        return await run(workspaces, task(), harness, {"": Seat(engine, "p", Sampling(), POLICY)})


async def test_tools_of_an_operators_server_are_reached_through_the_door(sandbox_target: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        asked = await request.json()
        found = {"content": [{"type": "text", "text": f"Ada is {asked['params'].get('arguments')}."}]}
        tool = {"name": "age", "inputSchema": {"type": "object"}}
        result = {"tools": [tool]} if asked["method"] == "tools/list" else found
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": result})

    app = web.Application()
    app.router.add_post("/mcp", answer)
    engine = MemoryEngine(says=[calling(("age", {"name": "Ada"})), calling(("submit", {}))])
    async with TestServer(app) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        found = await searched(sandbox_target, engine, url)
    last = found.session.calls[-1].question
    assert [one.content for one in last.messages if one.role == "tool"] == ["Ada is {'name': 'Ada'}."]
    away = await searched(sandbox_target, MemoryEngine(), url)
    assert away.judged is None
    assert "the tool server search does not answer" in away.fault


@pytest.mark.parametrize(
    ("command", "server", "said"),
    [
        (("no-such-server",), SERVER, "no-such-server serves no tools: .*No such file"),
        (("true",), SERVER, "true serves no tools: true, which serves the tools, has ended"),
        (("python", "/tmp/harness/server.py"), SERVER.replace('"age"', '"bash"'), "serves a tool bash, which is here"),
        (("bash", "-c", "read line; echo hello"), SERVER, "bash serves no tools: it says 'hello', which is no message"),
    ],
)
async def test_a_server_without_tools_is_an_error_of_who_named_it(
    sandbox_target: str, command: tuple[str, ...], server: str, said: str
) -> None:
    with pytest.raises(InvalidArgument, match=f"the model can't be given the tools: .*{said}"):
        await served_by(sandbox_target, MemoryEngine(), *command, server=server)
