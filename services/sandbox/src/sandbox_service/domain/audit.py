"""The audit of a node by itself: attacks that it claims to stop, honest programs that must pass, and both mixed."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain, cycle, islice

from ratchet_kit.errors import NotFound, RatchetError, Unavailable
from sandbox_service.domain.attack import CALL, LIMITS, SECRETS, Attack, Kind
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.levels import Level
from sandbox_service.domain.ports import Lanes
from sandbox_service.domain.program import CallTest, Program, StdioTest
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.domain.stream import PlatformFault

_CLEAN_UP_LIMIT = timedelta(seconds=3)
_HELD_UP = timedelta(seconds=2)
_TRIES = 3  # a machine that is busy may pause in one of them
"""The longest that the service may fail to answer: judging must not hold up its event loop."""
_MIXED_CPU = timedelta(seconds=0.1)
_MIXED_BATCH = 50
HOSTILE = 10
"""Of so many programs of the mixed run one is hostile."""
# What comes next in the lane: it finds nothing of those before it, and works.
_NEXT = """
import os

def f(x):
    assert os.listdir(".") == [], os.listdir(".")
    open("mine", "w").close()
    assert os.stat("mine").st_size == 0
    return x + 1
"""
_NEXT_SCRIPT = "import sys\nprint(int(sys.stdin.read()) + 1)\n"


@dataclass(frozen=True, slots=True)
class Honest:
    """A program that must pass from a level on, and one, if any, that must not pass the same tests."""

    program: Program
    wrong: Program | None = None
    level: Level = Level.L1


@dataclass(frozen=True, slots=True)
class Finding:
    """How an attack ended, or an honest program. `verdict` is None where the platform had none to give.

    `kind` is None for honest programs. `good`: the attack was caught, or the honest program passed.
    """

    name: str
    title: str
    kind: Kind | None
    good: bool
    verdict: Verdict | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """An attack, with processes or without."""

    attack: Attack
    processes: bool = False

    @property
    def name(self) -> str:
        return f"{self.attack.name}/processes" if self.processes else self.attack.name

    def found(self, verdict: Verdict | None, detail: str, good: bool = False) -> Finding:
        return Finding(self.name, self.attack.title, self.attack.kind, good, verdict, detail)


async def attempt(sandbox: Sandbox, attack: Attack, processes: bool = False) -> Finding:
    """As often as it wants to, in a row and at a time. Caught if each time the verdict is one that it may get, and the
    service was not held up: tried anew when it was, since a machine that pauses holds it up, too, but not every time.

    With `processes` it can do more, and may come to other ends: any verdict but PASSED.
    """
    trial = Trial(attack, processes)
    if attack.kind is Kind.TELL_HELD_OUT:
        return await _tell(sandbox, trial)
    for _ in range(_TRIES):
        finding, held_up = await _attempt(sandbox, trial)
        if not finding.good or held_up <= _HELD_UP.total_seconds():
            return finding
    return trial.found(finding.verdict, f"the service answered nobody for {held_up:.1f} s")


async def _attempt(sandbox: Sandbox, trial: Trial) -> tuple[Finding, float]:
    """And for how long the service was held up, in seconds."""
    attack, processes = trial.attack, trial.processes
    program, allowed = attack.program(processes), set(attack.expected)
    if processes and attack.language == "python":
        allowed = set(Verdict) - {Verdict.PASSED, Verdict.NONE}
    verdict, detail = None, ""
    async with _held_up() as held_up:
        for _ in range(attack.runs):
            try:
                executions = await asyncio.gather(*(sandbox.execute(program) for _ in range(attack.at_once)))
            except Unavailable as error:
                return trial.found(None, f"it took the lane down: {error}"), held_up()
            except Exception as error:  # noqa: BLE001 (whatever it is, it's no verdict)
                detail = f"it ended in an error of the service: {type(error).__name__}: {error}"
                return trial.found(None, detail), held_up()
            for one in executions:
                verdict, detail = one.verdict, one.detail
                if verdict is Verdict.PASSED:
                    return trial.found(verdict, "it got through"), held_up()
                if verdict not in allowed:
                    return trial.found(verdict, f"an end that it should not come to: {detail}"), held_up()
    return trial.found(verdict, detail, good=True), held_up()


async def _tell(sandbox: Sandbox, trial: Trial) -> Finding:
    """Caught if what comes back of two secrets is the same."""
    executions = []
    for secret in SECRETS:
        test = CallTest((secret,), 2, held_out=True)
        try:
            executions.append(await sandbox.execute(replace(trial.attack.program(trial.processes), tests=(test,))))
        except Exception as error:  # noqa: BLE001 (as above)
            return trial.found(None, f"it ended in an error of the service: {type(error).__name__}: {error}")
    one, other = executions
    sent = [name for name in Execution.__dataclass_fields__ if not name.startswith("hidden_")]
    sides = [(name, getattr(one, name), getattr(other, name)) for name in sent]
    differ = [f"{name}: {mine!r:.60} and {theirs!r:.60}" for name, mine, theirs in sides if mine != theirs]
    return trial.found(one.verdict, "; ".join(differ), good=not differ and one.verdict is not Verdict.PASSED)


@asynccontextmanager
async def _held_up() -> AsyncIterator[Callable[[], float]]:
    """The longest time for which the event loop did nothing else, in seconds."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.05)
            longest = max(longest, time.monotonic() - before - 0.05)

    watching = asyncio.create_task(watch())
    try:
        yield lambda: longest
    finally:
        watching.cancel()


class Audit:
    """On a node's own lanes."""

    def __init__(
        self, sandbox: Sandbox, lanes: Lanes, attacks: Sequence[Attack], honest: Callable[[], Sequence[Honest]] = tuple
    ) -> None:
        """`honest` is asked when an audit needs them: they take seconds to read."""
        self._sandbox, self._lanes, self._attacks, self._honest = sandbox, lanes, attacks, honest

    def attacks(self, names: Collection[str] = ()) -> list[Trial]:
        """Those that this node claims to stop. All unless named. Raises NotFound."""
        offered = self._sandbox.capabilities
        claimed = [
            Trial(attack, processes)
            for attack in self._attacks
            for processes in ((False, True) if offered.processes else (False,))
            if attack.level <= offered.level and attack.tried_with(processes) and self._lacks(attack.program()) is None
        ]
        known = {trial.attack.name for trial in claimed} | {one.program.id for one in self._honest()}
        if unknown := sorted(set(names) - known):
            raise NotFound(f"this node, at {offered.level}, does not claim to stop attack {unknown[0]!r}")
        return [trial for trial in claimed if not names or trial.attack.name in names]

    def honest(self, names: Collection[str] = ()) -> list[Honest]:
        """All unless named."""
        return [one for one in self._honest() if not names or one.program.id in names]

    async def run(self, attacks: Sequence[Trial], honest: Sequence[Honest], mixed: int) -> AsyncIterator[Finding]:
        """One for each, and then one of the mixed run, of `mixed` programs, with one more for each that went wrong."""
        for trial in attacks:
            finding = await attempt(self._sandbox, trial.attack, trial.processes)
            yield await self._look_after(finding, trial.processes) if finding.good else finding
        for one in honest:
            yield await self._pass(one)
        if mixed:
            async for finding in self._mix(mixed):
                yield finding

    def _lacks(self, program: Program, level: Level = Level.L1) -> str | None:
        """What the node lacks for it, in words."""
        offered = self._sandbox.capabilities
        if level > offered.level > Level.NONE:
            return f"it takes {level}"
        if program.language not in {runtime.language for runtime in offered.runtimes}:
            return f"{program.language} is not on this node"
        if program.runtime and program.runtime not in {runtime.name for runtime in offered.runtimes}:
            return f"the runtime {program.runtime} is not on this node"
        return "programs may not start processes here" if program.processes and not offered.processes else None

    async def _look_after(self, finding: Finding, processes: bool) -> Finding:
        """Not caught, after all, if it left something or if the next programs suffer from it."""
        try:
            async with asyncio.timeout(_CLEAN_UP_LIMIT.total_seconds()):
                while left := await self._lanes.leftovers():
                    await asyncio.sleep(0.02)
        except TimeoutError:
            return replace(finding, good=False, detail=f"left behind: {'; '.join(left)}")
        call = Program("next", _NEXT, "f", (CALL,), limits=LIMITS, processes=processes)
        script = replace(call, source=_NEXT_SCRIPT, entry_point="", tests=(StdioTest("1\n", "2\n"),))
        for honest in (call, script, call):
            lanes = self._sandbox.capabilities.lanes  # one of them had it
            try:
                after = await asyncio.gather(*(self._sandbox.execute(honest) for _ in range(lanes)))
            except RatchetError as error:
                return replace(finding, good=False, detail=f"it spoiled the lane: {error}")
            for one in after:
                if one.verdict is not Verdict.PASSED:
                    detail = f"the next program got {one.verdict.name}: {one.detail}"
                    return replace(finding, good=False, detail=detail)
        return finding

    async def _pass(self, honest: Honest) -> Finding:
        name, title = honest.program.id, "an honest program"
        if lack := self._lacks(honest.program, honest.level):
            return Finding(name, title, None, True, None, f"skipped: {lack}")
        try:
            found = await self._sandbox.execute(honest.program)
            if found.verdict is not Verdict.PASSED:
                return Finding(name, title, None, False, found.verdict, found.detail)
            twin = await self._sandbox.execute(honest.wrong) if honest.wrong else None
        except RatchetError as error:
            return Finding(name, title, None, False, None, str(error))
        if twin and twin.verdict is Verdict.PASSED:
            return Finding(name, title, None, False, found.verdict, "a program that answers 'wrong' passes as well")
        return Finding(name, title, None, True, found.verdict)

    async def _mix(self, count: int) -> AsyncIterator[Finding]:
        """Honest programs and hostile ones in random order, on all lanes: each verdict as when alone."""
        title = "honest programs among hostile ones"
        programs = self._mixture(count)

        async def batches() -> AsyncIterator[Sequence[Program]]:
            for start in range(0, len(programs), _MIXED_BATCH):
                yield [program for program, _ in programs[start : start + _MIXED_BATCH]]

        wrong = 0
        async for items in self._sandbox.execute_stream(batches(), patient=True):
            for item in items:
                (program, hostile), outcome = programs[item.index], item.outcome
                verdict = None if isinstance(outcome, PlatformFault) else outcome.verdict
                if verdict is None or (verdict is Verdict.PASSED) is hostile:
                    wrong += 1
                    detail = outcome.message if isinstance(outcome, PlatformFault) else outcome.detail
                    yield Finding(f"mixed: {program.id}", title, None, False, verdict, detail)
        hostile_ones = sum(hostile for _, hostile in programs)
        detail = f"{len(programs) - hostile_ones} honest, {hostile_ones} hostile: {wrong} judged wrong"
        yield Finding("mixed", title, None, not wrong, None, detail)

    def _mixture(self, count: int) -> list[tuple[Program, bool]]:
        """With whether it's hostile. A hostile one comes first and last."""
        order = random.Random(count)
        honest = [one.program for one in self._honest() if self._lacks(one.program, one.level) is None]
        hostile = [trial.attack.program(trial.processes) for trial in self.attacks()]
        order.shuffle(honest)
        order.shuffle(hostile)
        limits = replace(LIMITS, cpu_time=_MIXED_CPU, idle_time=2 * _MIXED_CPU)
        attacks = [(replace(one, limits=limits), True) for one in islice(cycle(hostile), max(count // HOSTILE, 2))]
        mixed = [(one, False) for one in islice(cycle(honest), count - len(attacks))] + attacks[2:]
        order.shuffle(mixed)
        return list(chain(attacks[:1], mixed, attacks[1:2]))
