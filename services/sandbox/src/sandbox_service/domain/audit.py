"""Attacks on the sandbox by itself: what an attack is, how it's run, and when it counts as caught.

An attack is asked for f(1) == 2 and doesn't compute it: it answers 2 once it has got through, so that one that is
stopped never passes. Each is a file of `attacks/`, whose docstring says what it is:

    What it tries, in a line.

    Kind: fake-a-pass, or break-out
    Expect: FAILED, RUNTIME_ERROR     the verdicts that it may get
    From: L2                          the level that claims to stop it; L1 unless said
    Test: check                       call, check or stdio; call unless said
    Check: assert candidate(1) == 2   what the test does, for a check
    Profile: strict                   not meant for programs that may start processes; break-out only
    Runs: 3                           so often in a row: it leaves something, and then looks for it
    Probe: yes                        tried at every start of the service
"""

import ast
import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from ratchet_kit import syntax
from ratchet_kit.errors import NotFound, Unavailable
from sandbox_service.domain.execution import Verdict
from sandbox_service.domain.levels import Level
from sandbox_service.domain.ports import Lanes
from sandbox_service.domain.program import CallTest, CheckTest, Limits, Program, StdioTest, Test
from sandbox_service.domain.sandbox import Sandbox

LIMITS = Limits(cpu_time=timedelta(seconds=0.5), memory_bytes=128 << 20)
_CALL = CallTest((1,), 2)
_DEFAULT_CHECK = "assert candidate(1) == 2"
_CLEAN_UP_LIMIT = timedelta(seconds=3)
# What comes next in the lane: it finds nothing of those before it, and works.
_HONEST = """
import os

def f(x):
    assert os.listdir(".") == [], os.listdir(".")
    open("mine", "w").close()
    return x + 1
"""


class Kind(StrEnum):
    FAKE_A_PASS = "fake-a-pass"
    BREAK_OUT = "break-out"


@dataclass(frozen=True, slots=True)
class Attack:
    name: str
    title: str
    kind: Kind
    source: str
    expected: frozenset[Verdict]
    level: Level = Level.L1
    test: Test = _CALL
    strict_only: bool = False
    runs: int = 1
    probe: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """How an attack ended. `verdict` is None where the platform had none to give, which counts as got through."""

    attack: Attack
    processes: bool
    caught: bool
    verdict: Verdict | None
    detail: str

    @property
    def name(self) -> str:
        return f"{self.attack.name}/processes" if self.processes else self.attack.name


def parse(name: str, source: str) -> Attack:
    """Raises ValueError, with the name of the attack."""
    try:
        title, _, rest = (ast.get_docstring(syntax.parse(source)) or "").partition("\n\n")
        fields = dict(line.split(": ", 1) for line in rest.strip().splitlines())
        expected = frozenset(Verdict[word.strip()] for word in fields.pop("Expect").split(","))
        attack = Attack(
            name,
            " ".join(title.split()),
            Kind(fields.pop("Kind")),
            source,
            expected,
            Level[fields.pop("From", "L1")],
            _test(fields.pop("Test", "call"), fields.pop("Check", _DEFAULT_CHECK)),
            fields.pop("Profile", "") == "strict",
            int(fields.pop("Runs", "1")),
            fields.pop("Probe", "") == "yes",
        )
    except (KeyError, ValueError, SyntaxError) as error:
        raise ValueError(f"attack {name}: {type(error).__name__}: {error}") from None
    if Verdict.PASSED in expected or not title or fields:
        raise ValueError(f"attack {name}: a title, verdicts without PASSED, and no field but those that are known")
    return attack


def _test(kind: str, check: str) -> Test:
    tests: dict[str, Test] = {
        "call": _CALL,
        "check": CheckTest(f"def check(candidate):\n    {check}\n"),
        "stdio": StdioTest("1\n", "2\n"),
    }
    return tests[kind]


async def attempt(sandbox: Sandbox, attack: Attack, processes: bool = False) -> Finding:
    """As often as it wants to, in a row. Caught if each time the verdict is one that it may get.

    With `processes` it can do more, and may come to other ends: any but PASSED.
    """
    program = Program(attack.name, attack.source, "f", (attack.test,), limits=LIMITS, processes=processes)
    verdict = None
    for _ in range(attack.runs):
        try:
            execution = await sandbox.execute(program)
        except Unavailable as error:
            return Finding(attack, processes, False, None, f"it took the lane down: {error}")
        verdict, detail = execution.verdict, execution.detail
        if verdict is Verdict.PASSED:
            return Finding(attack, processes, False, verdict, "it got through")
        if verdict not in attack.expected and not processes:
            return Finding(attack, processes, False, verdict, f"an end that it should not come to: {detail}")
    return Finding(attack, processes, True, verdict, detail)


class Audit:
    """All attacks that a node claims to stop, one after the other, on its own lanes."""

    def __init__(self, sandbox: Sandbox, lanes: Lanes, attacks: Sequence[Attack]) -> None:
        self._sandbox, self._lanes, self._attacks = sandbox, lanes, attacks

    def plan(self, names: Collection[str]) -> list[tuple[Attack, bool]]:
        """Which, and whether with processes. All unless named. Raises NotFound."""
        offered = self._sandbox.capabilities
        claimed = [
            (attack, processes)
            for attack in self._attacks
            for processes in ((False, True) if offered.processes else (False,))
            if attack.level <= offered.level
            if not processes or (attack.kind is Kind.BREAK_OUT and not attack.strict_only)
        ]
        known = {attack.name for attack, _ in claimed}
        if unknown := sorted(set(names) - known):
            raise NotFound(f"attack {unknown[0]!r} is none that this node, at {offered.level}, claims to stop")
        return [(attack, processes) for attack, processes in claimed if not names or attack.name in names]

    async def run(self, plan: Sequence[tuple[Attack, bool]]) -> AsyncIterator[Finding]:
        for attack, processes in plan:
            finding = await attempt(self._sandbox, attack, processes)
            yield await self._look_after(finding) if finding.caught else finding

    async def _look_after(self, finding: Finding) -> Finding:
        """Not caught, after all, if it left something or if the next program suffers from it."""
        try:
            async with asyncio.timeout(_CLEAN_UP_LIMIT.total_seconds()):
                while left := await self._lanes.leftovers():
                    await asyncio.sleep(0.02)
        except TimeoutError:
            return _escaped(finding, f"left behind: {'; '.join(left)}")
        honest = Program("honest", _HONEST, "f", (_CALL,), limits=LIMITS, processes=finding.processes)
        try:
            after = await self._sandbox.execute(honest)
        except Unavailable as error:
            return _escaped(finding, f"it spoiled the lane: {error}")
        if after.verdict is not Verdict.PASSED:
            return _escaped(finding, f"the next program got {after.verdict.name}: {after.detail}")
        return finding


def _escaped(finding: Finding, detail: str) -> Finding:
    return Finding(finding.attack, finding.processes, False, finding.verdict, detail)
