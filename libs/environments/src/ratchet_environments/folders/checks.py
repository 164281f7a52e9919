"""Does a task folder hold? Its solution passes, nothing done fails, and nothing but solving it wins."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from ratchet_environments.audit import each
from ratchet_environments.folders.attacks import ATTACKS, Attack
from ratchet_environments.folders.folder import Judge, TaskFolder, read
from ratchet_environments.folders.judging import Judged, declared, judge, solve, start
from ratchet_environments.folders.work import removed_by
from ratchet_environments.workspaces import Workspaces
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, RatchetError, ResourceExhausted, Unimplemented

_ATTACK_TIME = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Win:
    """An attack that won."""

    attack: Attack
    reward: float


@dataclass(frozen=True, slots=True)
class Checked:
    path: Path
    name: str = ""
    judge: str = ""
    fault: str = ""
    """Why the folder does not hold, or nothing can be said of it."""
    attempts: int = 0
    """Attacks that were tried."""
    wins: Sequence[Win] = ()
    unknown: bool = False
    """The platform failed: `fault` says nothing of the folder."""
    crowded: bool = False
    """And that for want of room, which folders that are checked side by side may have taken from each other."""

    @property
    def forgeable(self) -> bool:
        return self.judge == Judge.PROCESS

    @property
    def holds(self) -> bool:
        return not self.fault and not self.wins


@dataclass(frozen=True, slots=True)
class _Oracle:
    folder: TaskFolder
    made: list[str]
    """Files that the solution makes or changes, by their absolute path."""
    nothing: float
    """Reward of an agent that does nothing."""


async def verify(workspaces: Workspaces, path: Path) -> Checked:
    """Raises Unavailable, NotFound, ResourceExhausted where the platform failed."""
    found = await _try(workspaces, path)
    return found if isinstance(found, Checked) else _checked(found, path)


async def audit(workspaces: Workspaces, path: Path, attacks: Sequence[Attack] = ATTACKS) -> Checked:
    """Raises as `verify`. A folder whose tests share the program's process is attacked as well: its wins show what a
    reward of it would be worth."""
    found = await _try(workspaces, path)
    if isinstance(found, Checked):
        return found
    wins: list[Win] = []
    for attack in attacks:
        reward = await _attacked(workspaces, found, attack)
        if reward > found.nothing:
            wins.append(Win(attack, reward))
    return replace(_checked(found, path), attempts=len(attacks), wins=tuple(wins))


async def check_all(
    do: Callable[[Workspaces, Path], Awaitable[Checked]],
    workspaces: Workspaces,
    paths: Sequence[Path],
    tell: Callable[[int, int], None],
) -> list[Checked]:
    """In order. A folder that the platform fails for does not hold, and says so. One that had no room is checked again,
    alone: each of several may hold what another waits for."""

    async def one(path: Path) -> Checked:
        try:
            return await do(workspaces, path)
        except RatchetError as error:
            how = "lacks what it needs" if isinstance(error, Unimplemented) else "failed"
            fault = f"the sandbox {how}, and nothing is known: {error.message}"
            return Checked(path, fault=fault, unknown=True, crowded=isinstance(error, ResourceExhausted))

    found = await each(one, paths, tell, at_once=4)
    return [await one(checked.path) if checked.crowded and len(paths) > 1 else checked for checked in found]


def _checked(oracle: _Oracle, path: Path) -> Checked:
    return Checked(path, oracle.folder.name, oracle.folder.judge)


async def _try(workspaces: Workspaces, path: Path) -> _Oracle | Checked:
    """The folder, once its solution has passed and doing nothing has not."""
    folder = None
    try:
        folder = read(path)
        async with start(workspaces, folder) as workspace:
            before = await declared(workspace, folder)
            done = await solve(workspace, folder)
            after = await declared(workspace, folder)
        if not done.succeeded:
            words = (done.stdout + done.stderr).decode("utf-8", "replace").strip()[-300:]
            raise InvalidArgument(f"solution/solve.sh ends with {done.ending}: {words}")
        nothing = await judge(workspaces, folder, before, forgeable=True)
        solved = await judge(workspaces, folder, after, forgeable=True)
    except InvalidArgument as error:
        return Checked(path, folder.name if folder else "", folder.judge if folder else "", error.message)
    if not solved.passed:
        return _failed(path, folder, "the solution does not pass", solved)
    if nothing.passed:
        return _failed(path, folder, "an agent that does nothing passes", nothing)
    made = [
        folder.absolute(name)
        for name, file in after.files.items()
        if before.files.get(name) != file and "/.git/" not in name and not (folder.has_image and removed_by(name))
    ]
    return _Oracle(folder, made, nothing.reward or 0.0)


def _failed(path: Path, folder: TaskFolder, words: str, judged: Judged) -> Checked:
    printed = judged.output.strip().splitlines()
    return Checked(
        path, folder.name, folder.judge, f"{words}: {judged.reason}" + (f"; {printed[-1][:200]}" if printed else "")
    )


async def _attacked(workspaces: Workspaces, oracle: _Oracle, attack: Attack) -> float:
    folder = oracle.folder
    async with start(workspaces, folder) as workspace:
        script = attack.script(folder.absolute(folder.workdir), oracle.made, [f"/{name}" for name in folder.tests])
        done = await workspace.exec("python3", "-c", script, folder=folder.workdir, wall_time=_ATTACK_TIME)
        if done.exit.reason:
            raise FailedPrecondition(f"{folder.name} can't be attacked: the image has no python3: {done.exit.reason}")
        # what it left running is still there, and so is its workspace until the judge has spoken
        work = await declared(workspace, folder)
        try:
            judged = await judge(workspaces, folder, work, forgeable=True)
        except InvalidArgument:
            return 0.0  # its tests wrote no number
    return judged.reward or 0.0
