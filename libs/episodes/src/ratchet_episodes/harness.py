"""A harness: any command that calls models. It runs in the task's workspace and finds the episode's door there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

from ratchet_environments import EnvironmentSpec, relay
from ratchet_environments.folders import judging
from ratchet_environments.folders.folder import TaskFolder
from ratchet_environments.folders.judging import Judged
from ratchet_environments.folders.tree import File, Tree, packed_now
from ratchet_environments.folders.work import Work
from ratchet_environments.spec import TOOLS
from ratchet_environments.workspaces import Done, Workspace, Workspaces
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound, Unavailable
from ratchet_kit.tool_servers import ToolServer
from ratchet_sessions import Session
from ratchet_sessions.door import Door, Seat, opened

FOLDER, INSTRUCTION = "harness", "instruction.md"
"""Below /tmp of the workspace."""
_SHOWN = 500
_TOOLS_PROGRAM, _TOOL_SERVERS = "tools_program.py", ("tool_server.py", "http_tool_server.py")


@dataclass(frozen=True, slots=True)
class Harness:
    command: tuple[str, ...]
    files: Tree = field(default_factory=dict)
    """Its own, by their path below /tmp/harness."""
    is_ours: bool = False
    """It is the platform's: what the model refuses is no fault of the program."""
    tool_servers: Mapping[str, ToolServer] = field(default_factory=dict, repr=False)
    """MCP servers that it reaches by their names."""


def harness_of(environment: EnvironmentSpec, tool_servers: Mapping[str, ToolServer] = {}) -> Harness:
    """The harness of an environment that plays on task folders. `tool_servers`: those that the operator named."""
    files = {path: File(text.encode()) for path, text in environment.files.items()}
    if environment.name == TOOLS:
        sources = resources.files("ratchet_episodes")
        ours = {name: File(sources.joinpath(name).read_bytes()) for name in (_TOOLS_PROGRAM, *_TOOL_SERVERS)}
        command = ("python3", f"/tmp/{FOLDER}/{_TOOLS_PROGRAM}", str(environment.turns), *environment.command)
        return Harness(command, files | ours, is_ours=True, tool_servers=tool_servers)
    return Harness(environment.command, files, tool_servers=tool_servers)


@dataclass(frozen=True, slots=True)
class Episode:
    session: Session
    done: Done
    """How the command ended."""
    judged: Judged | None
    """None where a fault of the platform kept answers from the program: that is no verdict about the policy."""
    work: Work = field(default_factory=Work)
    """The files that the judge got."""

    @property
    def fault(self) -> str:
        lost = self.session.lost
        return f"{len(lost)} calls got no answer: {lost[0].reason}" if lost else ""

    @property
    def reward(self) -> float | None:
        """None for an episode that was not judged, or whose reward the program could have written."""
        return self.judged.reward if self.judged else None


async def run(
    workspaces: Workspaces, task: TaskFolder, harness: Harness, seats: Mapping[str, Seat], *, forgeable: bool = False
) -> Episode:
    """One episode. `seats`: who answers, by the name that the program gives a model. `forgeable`: give a reward that
    the program could have written, as well.

    What the command does is the policy's affair, its failure and its limit of time as well. Raises Unavailable,
    ResourceExhausted where the platform failed, InvalidArgument for a folder that can't be judged, no node can hold, or
    whose command can't start.
    """
    try:
        return await _run(workspaces, task, harness, seats, forgeable)
    except NotFound as error:
        raise Unavailable(f"the workspace is gone: {error.message}") from error
    except FailedPrecondition as error:  # no node can hold such a workspace
        raise InvalidArgument(error.message) from error


async def _run(
    workspaces: Workspaces, task: TaskFolder, harness: Harness, seats: Mapping[str, Seat], forgeable: bool
) -> Episode:
    session = Session()
    async with (
        opened(Door(session, seats, tool_servers=harness.tool_servers)) as door,
        judging.start(workspaces, task) as workspace,
    ):
        await workspace.write(packed_now(_files(task, harness)))
        done = await _exec(workspace, door, task, harness.command)
        if done.exit.reason:
            raise InvalidArgument(f"{harness.command[0]} can't be started in the workspace: {done.exit.reason}")
        if harness.is_ours and not session.calls and not session.lost:
            reason = session.failed[0].reason if session.failed else done.stderr.decode("utf-8", "replace")[-_SHOWN:]
            raise InvalidArgument(f"the model can't be given the tools: {reason.strip()}")
        work = await judging.declared(workspace, task)
    judged = None if session.lost else await judging.judge(workspaces, task, work, forgeable=forgeable)
    return Episode(session, done, judged, work)


def _files(task: TaskFolder, harness: Harness) -> dict[str, File]:
    own = {task.temporary(f"{FOLDER}/{name}"): file for name, file in harness.files.items()}
    return {**own, task.temporary(INSTRUCTION): File(task.instruction.encode())}


async def _exec(workspace: Workspace, door: Door, task: TaskFolder, command: tuple[str, ...]) -> Done:
    host, _, port = door.url.removeprefix("http://").rpartition(":")
    return await workspace.exec(
        *command,
        environment={**task.variables, **door.variables(relay.URL)},
        folder=task.workdir,
        wall_time=task.agent_timeout,
        relay=(host, int(port)),
    )
