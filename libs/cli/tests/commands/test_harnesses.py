"""`ratchet new harness|tools`: what is written works."""

import sys
from pathlib import Path
from typing import Any

import pytest

from ratchet_cli.commands import harnesses
from ratchet_environments.folders.folder import read
from ratchet_episodes import Harness, run
from ratchet_episodes.tool_server import Refused, ToolServer
from ratchet_policies import Sampling
from ratchet_sessions.door import Seat
from ratchet_testing.memory_engine import POLICY, MemoryEngine
from ratchet_testing.workspaces import served

ROOT = Path(__file__).parents[4]


def test_a_new_harness_is_the_example(ratchet: Any, tmp_path: Path) -> None:
    done = ratchet("new", "harness", "mine", "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    files = f"--files {tmp_path}/mine/files -- python /tmp/harness/agent.py"
    said = done.stdout.replace("\n", " ")
    assert f"ratchet episode {tmp_path}/mine/tasks/hello --model MODEL {files}" in said
    assert f"ratchet train --model MODEL --problems mine/train {files}" in said
    written = (tmp_path / "mine/files/agent.py").read_text()
    assert written == (ROOT / "examples/harness/agent.py").read_text()
    again = ratchet("new", "harness", "mine", "--folder", str(tmp_path))
    assert (again.returncode, "is there already" in again.stderr) == (1, True)
    wrong = ratchet("new", "tools", "My Tools", "--folder", str(tmp_path))
    assert (wrong.returncode, "My Tools is not a name" in wrong.stderr) == (2, True)


def test_new_tools_are_served(ratchet: Any, tmp_path: Path) -> None:
    done = ratchet("new", "tools", "mine", "--folder", str(tmp_path))
    assert "--set environment=tools --files" in done.stdout.replace("\n", " "), done.stderr
    server = ToolServer([sys.executable, str(tmp_path / "mine/files/server.py")])
    (tool,) = server.tools()
    assert (tool["name"], tool["description"]) == ("count_lines", "Tells how many lines a file has.")
    (tmp_path / "two").write_text("1\n2\n")
    assert server.call("count_lines", {"path": str(tmp_path / "two")}).endswith("two has 2 lines.")
    with pytest.raises(Refused, match="FileNotFoundError"):
        server.call("count_lines", {"path": str(tmp_path / "three")})


@pytest.mark.integration
@pytest.mark.timeout(120)
async def test_its_task_can_be_solved_and_doing_nothing_does_not(tmp_path: Path, sandbox_target: str) -> None:
    harnesses.new_harness("mine", tmp_path)
    task = read(tmp_path / "mine/tasks/hello")
    solution = (tmp_path / "mine/tasks/hello/solution/solve.sh").read_text()
    seats = {"": Seat(MemoryEngine(), "p", Sampling(), POLICY)}
    async with served(sandbox_target) as workspaces:
        solved = await run(workspaces, task, Harness(("bash", "-c", solution)), seats)
        idle = await run(workspaces, task, Harness(("true",)), seats)
    assert (solved.reward, idle.reward, task.name) == (1.0, 0.0, "mine/hello")
