"""An episode in a container image: a model works there with the tools, and the judge has a fresh one."""

import json
from pathlib import Path

import pytest

from ratchet_environments import EnvironmentSpec
from ratchet_environments.folders import folder
from ratchet_environments.folders.tree import File
from ratchet_episodes import harness_of, record, run
from ratchet_policies import Sampling
from ratchet_problems import Message, ToolCall
from ratchet_sessions.door import Seat
from ratchet_testing import images
from ratchet_testing.memory_engine import POLICY, MemoryEngine
from ratchet_testing.sandbox import sandbox_service
from ratchet_testing.workspaces import served

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

_FILES = {
    "task.toml": 'metadata.ratchet.judge = "files"\nenvironment = {docker_image = "own/app:1", workdir = "/testbed"}\n',
    "instruction.md": "Remove old.txt, write new.txt.",
    "tests/test.sh": "[ ! -e old.txt ] && [ -s new.txt ] && [ ! -e /opt/x ] && echo 1 > /logs/verifier/reward.txt",
}


async def test_a_model_works_in_an_image_with_the_tools(tmp_path: Path) -> None:
    layers = [images.of_machine(), images.layer([images.entry("testbed/old.txt", b"old\n")])]
    images.save(tmp_path / "app.tar", "own/app:1", layers, workdir="/testbed")
    task = folder.interpret({path: File(text.encode()) for path, text in _FILES.items()}, "a-task")
    arguments = [
        ("bash", {"command": "pwd; mkdir -p /opt; touch /opt/x; rm old.txt; cat /tmp/instruction.md"}),
        ("run_python", {"code": "open('new.txt', 'w').write('new')"}),
        ("submit", {}),
    ]
    calls = [ToolCall(name, json.dumps(given), f"call{place}", 0) for place, (name, given) in enumerate(arguments)]
    engine = MemoryEngine(says=[Message("assistant", "", (call,)) for call in calls])
    harness = harness_of(EnvironmentSpec("tools", 20))
    with sandbox_service(images=str(tmp_path)) as target:
        async with served(target) as workspaces:
            found = await run(workspaces, task, harness, {"": Seat(engine, "p", Sampling(), POLICY)})
    assert (found.done.succeeded, found.reward, found.fault) == (True, 1.0, ""), found.done
    assert b"/testbed\nRemove old.txt" in found.done.stdout
    changes = [(one.path, one.kind) for one in record.record_of(task, found).changes]
    assert changes == [("testbed/new.txt", "added"), ("testbed/old.txt", "removed")]
