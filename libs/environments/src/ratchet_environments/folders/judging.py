"""Judging a task folder: the agent's declared files in a fresh workspace, where it never was.

Its processes, its PATH, its packages and its home stay behind. What the tests write as the reward counts where they
ended by themselves. Who could have written it is said by the folder's `Judge`.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from typing import Any

from ratchet.sandbox.v1 import workspace_pb2 as pb
from ratchet_environments.folders.dockerfile import OWN
from ratchet_environments.folders.folder import Judge, TaskFolder
from ratchet_environments.folders.subject import Subject, room, run_with
from ratchet_environments.folders.tools import SAFE_PATH, commands
from ratchet_environments.folders.tree import MOST_BYTES, File, packed_now, unpacked
from ratchet_environments.folders.work import Work, clean, together, untouched
from ratchet_environments.workspaces import Done, Workspace, Workspaces, own_limit
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, ResourceExhausted, invalid

PASSES = 1.0
"""Reward from which on a task is solved."""
_OUTPUT_BYTES = 16 << 20
_REWARD_BYTES = 1 << 20
_SHOWN = 2000
_TOOLS = f"{OWN}/bin"
_PYTHON = f"{OWN}/python"
_COMMAND = (
    f'export PATH="/tmp/{_TOOLS}:$PATH" PYTHONPATH="%s/tests${{PYTHONPATH:+:$PYTHONPATH}}" && exec bash /tests/test.sh'
)
_HOME = f"{OWN}/home"
_FOLDERS = ("logs/verifier", "logs/agent", "logs/artifacts")
_GIT = {
    "core.hooksPath": "/dev/null", "core.fsmonitor": "false", "core.pager": "cat", "safe.bareRepository": "explicit",
    "core.commitGraph": "false",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    reward: float | None
    """None where the program could have written it, and such a reward was not asked for."""
    forgeable: bool
    """The tests may have run or imported the agent's files beside them."""
    reason: str
    output: str = ""
    """The end of what the tests printed."""

    @property
    def passed(self) -> bool:
        return self.reward is not None and self.reward >= PASSES


@asynccontextmanager
async def start(workspaces: Workspaces, folder: TaskFolder) -> AsyncIterator[Workspace]:
    """The agent's workspace, with the task's files. Raises as `Workspaces.open`; FailedPrecondition where the node's
    workspaces hold no processes."""
    limits = room(folder.agent_timeout, folder.memory_bytes)
    async with workspaces.open(folder.runtime, limits, keep_processes=True) as workspace:
        _check(workspace)
        folders = (*_FOLDERS[1:3], *([folder.workdir] if folder.workdir else []))
        await workspace.write(packed_now(folder.environment, folders))
        yield workspace


async def solve(workspace: Workspace, folder: TaskFolder) -> Done:
    """Runs solution/solve.sh, as an agent that knows it. Raises InvalidArgument where it is missing."""
    if "solution/solve.sh" not in folder.solution:
        raise InvalidArgument(
            f"{folder.name}: solution/solve.sh is not there: write it, it shows that the task can be solved"
        )
    await workspace.write(packed_now(folder.solution))
    environment = {**folder.variables, **folder.solution_variables}
    return await workspace.exec(
        "bash", "/solution/solve.sh", environment=environment, folder=folder.workdir, wall_time=folder.agent_timeout
    )


async def declared(workspace: Workspace, folder: TaskFolder) -> Work:
    """The declared files of the agent. Raises Unavailable, NotFound for a workspace that is lost, ResourceExhausted
    where the node is busy."""
    found = Work()
    try:
        for artifact in folder.artifacts:
            try:
                tar = await workspace.read(artifact.path, most=3 * MOST_BYTES, changed=True)
            except InvalidArgument:
                continue  # it made none, or a link
            found = together([found, await asyncio.to_thread(clean, folder, tar)])
    except InvalidArgument as error:
        return Work(fault=error.message)
    except ResourceExhausted as error:
        return Work(fault=own_limit(error))
    return found


async def judge(workspaces: Workspaces, folder: TaskFolder, work: Work, *, forgeable: bool = False) -> Judged:
    """Raises Unavailable, NotFound, ResourceExhausted where the platform failed, InvalidArgument for a folder whose
    tests write no number. `forgeable`: give a reward that the program could have written, as well."""
    shares = folder.judge is Judge.PROCESS
    if shares and not forgeable:
        return Judged(
            None, True, "the tests share the program's process, which can write the reward: ask for forgeable ones"
        )
    if work.fault:
        return Judged(0.0, shares, f"the agent's files can't be taken: {work.fault}")
    async with AsyncExitStack() as stack:
        limits = room(folder.verifier_timeout, folder.memory_bytes)
        subject = None
        if folder.judge is Judge.PROGRAM:
            both = workspaces.two(folder.runtime, limits)
            program, workspace = await stack.enter_async_context(both)
            subject = Subject(program, folder)
        else:
            workspace = await stack.enter_async_context(workspaces.open(folder.runtime, limits))
        _check(workspace)
        for one in (workspace, *([subject.workspace] if subject else [])):
            await one.write(packed_now(untouched(folder), [folder.workdir] if folder.workdir else []))
        tests = packed_now(_judges_files(folder), (*_FOLDERS, folder.temporary(_HOME)))
        if fault := await _hand_over(subject.workspace if subject else workspace, work, workspace, tests):
            return Judged(0.0, shares, f"the agent's files can't be taken: {fault}")
        done = await _test(workspace, folder, subject)
        output = (done.stdout + done.stderr).decode("utf-8", "replace")[-_SHOWN:]
        if done.exit.end != pb.ExecExit.END_EXITED or done.exit.status < 0:
            cut = "; they print and ask for more than is taken of them" if done.exit.output_cut and subject else ""
            return Judged(0.0, shares, f"the tests ended at {done.ending}{cut}", output)
        try:
            reward = await _reward(workspace)
        except InvalidArgument as error:
            if not shares:
                raise
            return Judged(0.0, shares, error.message, output)
        if reward is None:
            return Judged(0.0, shares, f"the tests wrote no reward, and ended with {done.ending}", output)
        if not math.isfinite(reward):
            return Judged(0.0, shares, f"the tests wrote {reward}, and a reward is a finite number", output)
        return Judged(reward, shares, f"reward {reward:g}", output)


async def _hand_over(workspace: Workspace, work: Work, judges: Workspace, tests: bytes) -> str:
    """Writes the agent's files, and then the tests. Returns the reason why these have no place beside the task's, or
    leave the tests no room; or nothing."""
    try:
        for tar in await asyncio.to_thread(lambda: work.tars):
            await workspace.write(tar)
    except InvalidArgument as error:
        return error.message
    except ResourceExhausted as error:
        return own_limit(error)
    try:
        await judges.write(tests)
    except ResourceExhausted as error:
        if workspace is judges and (work.files or work.folders):
            return f"they leave no room for the tests: {own_limit(error)}"
        raise invalid("tests", f"have no room: {own_limit(error)}") from error
    return ""


def _judges_files(folder: TaskFolder) -> dict[str, File]:
    """The tests, written last. pytest takes no settings from elsewhere: it finds a file of its own beside them."""
    settings = {f"tests/{name}" for name in ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")}
    pinned = {} if settings & set(folder.tests) else {"tests/pytest.ini": File(b"[pytest]\n")}
    own = resources.files("ratchet_environments.folders").joinpath("subject_command.py").read_bytes()
    tools = {folder.temporary(path): file for path, file in commands(_TOOLS, folder.has_image).items()}
    tools[folder.temporary(f"{_PYTHON}/sitecustomize.py")] = File(SAFE_PATH.encode())
    return {**pinned, **folder.tests, **tools, folder.temporary(f"{OWN}/subject_command.py"): File(own)}


async def _test(workspace: Workspace, folder: TaskFolder, subject: Subject | None) -> Done:
    environment = {
        "HOME": f"/tmp/{_HOME}",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **_git(),
        # a program that is run is found by its path; nothing of the agent's is imported for where the tests stand
        **({} if folder.judge is Judge.PROCESS else {"PYTHONSAFEPATH": "1"}),
        **folder.variables,
        **folder.verifier_variables,
    }
    first = "" if folder.judge is Judge.PROCESS else f"/tmp/{_PYTHON}:"
    command, place, limit = ["bash", "-c", _COMMAND % first], folder.workdir, folder.verifier_timeout
    if subject is None:
        return await workspace.exec(
            *command, environment=environment, folder=place, wall_time=limit, output_bytes=_OUTPUT_BYTES
        )
    relayed = ["python3", "-I", f"/tmp/{OWN}/subject_command.py", *command]
    return await run_with(workspace, relayed, subject, environment=environment, folder=place, wall_time=limit)


def _git() -> dict[str, str]:
    """Settings that no repository's own can change. Nor does it say that one commit stands for another, or has other
    parents."""
    found = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": "/nonexistent"}
    found["GIT_CONFIG_COUNT"] = str(len(_GIT))
    for number, (key, value) in enumerate(_GIT.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


async def _reward(workspace: Workspace) -> float | None:
    """The number that the tests wrote; None for nothing. Raises InvalidArgument for something that is no number."""
    for name in ("reward.json", "reward.txt"):
        path = f"logs/verifier/{name}"
        try:
            files, _ = unpacked(await workspace.read(path, most=_REWARD_BYTES), f"/{path}")
        except InvalidArgument:
            continue  # it is not there
        except ResourceExhausted as error:
            own_limit(error)
            continue
        file = files.get(path)
        if file is not None and not file.link and file.content.strip():
            return _number(file.content.decode("utf-8", "replace"), name)
    return None


def _number(text: str, name: str) -> float:
    """Not finite, perhaps: tests may compute it of what the agent made."""
    try:
        found = _read_number(text)
        if isinstance(found, dict):
            found = found["reward"] if "reward" in found else found.popitem()[1] if len(found) == 1 else None
        if isinstance(found, (bool, str)) or found is None:
            raise ValueError("no number")
        return float(found)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise InvalidArgument(
            f"/logs/verifier/{name}: {text[:100]!r} is no number, nor an object with a reward"
        ) from error


def _read_number(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return float(text)  # ".5", as bc prints it


def _check(workspace: Workspace) -> None:
    if "private-root" not in workspace.made.isolation_layers:
        raise FailedPrecondition(
            "this sandbox node holds workspaces at L1, where no program starts another: task folders need a node at L2 "
            "or L3 (docs/sandbox/isolation.md says what a machine must have)"
        )
