"""The attack suite in the real cage, at the level of this machine: all caught, and nothing left behind."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from ratchet_kit.errors import FailedPrecondition
from ratchet_testing.processes import children
from sandbox_service.adapters import attack_suite
from sandbox_service.adapters.aside.process import AsideProcess
from sandbox_service.adapters.lanes.options import LaneOptions
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.domain import test_code
from sandbox_service.domain.attack import Attack, parse
from sandbox_service.domain.audit import Audit, Trial
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.levels import Level
from sandbox_service.domain.program import Asserted, CallTest, CheckTest, Limits, Program
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

# Sources that no file of Python can hold.
UNREADABLE = {
    "nul_in_source": "x = 1\x00\n",
    "deep_nesting": "x = " + "(" * 20_000 + ")" * 20_000 + "\n",
    "deep_unary": "x = " + "-" * 90_000 + "1\n",
    "long_sum": "x = " + "1+" * 90_000 + "1\n",
    "not_python": "this is no Python",
}
PWNED = Path("/tmp/pwned")  # what pickle_bomb would make
LIMITS = Limits(cpu_time=timedelta(seconds=5), memory_bytes=256 << 20, output_bytes=64 << 10)
OPTIONS = LaneOptions(lanes=1, idle_extra=timedelta(seconds=0.5))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LanePool]:
    os.environ["SANDBOX_SECRET"] = "2"
    tempfile.tempdir = str(tmp_path_factory.mktemp("lanes"))
    before = _traces()
    async with LanePool(OPTIONS) as executor:
        yield executor
    await asyncio.sleep(0.05)
    processes, descriptors, folders = _traces()
    # What tests before this file opened may be closed meanwhile: only what is new was left here.
    assert (processes, descriptors - before[1], folders) == (before[0], set(), before[2])
    tempfile.tempdir = None
    del os.environ["SANDBOX_SECRET"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(executor: LanePool) -> AsyncIterator[Sandbox]:
    async with AsideProcess() as aside:
        yield Sandbox(executor, queue_limit=100, aside=aside)


def _traces() -> tuple[int, set[tuple[str, str]], list[str]]:
    """What a program could leave: processes, descriptors of the service (number and target), temporary folders."""
    folders = os.listdir(tempfile.gettempdir())
    return len(children(recursive=True)), _descriptors(), folders


def _descriptors() -> set[tuple[str, str]]:
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


async def _grade(sandbox: Sandbox, source: str) -> Execution:
    return await sandbox.execute(Program("hostile", source, "f", (CallTest((1,), 2),), limits=LIMITS))


async def _attack(sandbox: Sandbox, executor: LanePool, name: str, processes: bool) -> None:
    audit = Audit(sandbox, executor, attack_suite.attacks())
    if (one := next((one for one in audit.attacks([name]) if one.processes is processes), None)) is None:
        pytest.skip("not claimed at this machine's level")
    (finding,) = [finding async for finding in audit.run([one], (), 0)]
    assert finding.good, finding.detail
    assert not PWNED.exists()  # noqa: ASYNC240 (a stat)


@pytest.mark.parametrize("name", [attack.name for attack in attack_suite.attacks() if attack.tried_with(False)])
async def test_attack(sandbox: Sandbox, executor: LanePool, name: str) -> None:
    await _attack(sandbox, executor, name, processes=False)
    await _assert_nothing_is_left(sandbox, executor)


def _asserted(attack: Attack) -> tuple[Asserted, ...]:
    """What its test code asserts, where that is no more than calls: as a caller's is read."""
    test = attack.test
    if not isinstance(test, CheckTest) or test.shared:
        return ()
    return test_code.read(test.code, "f", test.names, shared=False).asserted


@pytest.mark.parametrize("attack", [one for one in attack_suite.attacks() if _asserted(one)], ids=lambda one: one.name)
async def test_attack_where_the_calls_of_the_test_code_are_made_without_it(
    sandbox: Sandbox, executor: LanePool, attack: Attack
) -> None:
    assert isinstance(attack.test, CheckTest)
    program = replace(attack.program(), tests=(replace(attack.test, asserted=_asserted(attack)),))
    execution = await sandbox.execute(program)
    # one that garbles what goes to the tests' process finds none here, and may be caught at something else
    assert execution.verdict not in (Verdict.PASSED, Verdict.NONE), execution
    await _assert_nothing_is_left(sandbox, executor)


@pytest.mark.parametrize("name", [attack.name for attack in attack_suite.attacks() if attack.tried_with(True)])
async def test_attack_where_processes_are_allowed(sandbox: Sandbox, executor: LanePool, name: str) -> None:
    await _attack(sandbox, executor, name, processes=True)


async def test_an_attack_that_gets_through_is_told(sandbox: Sandbox, executor: LanePool) -> None:
    attack = parse("knows", '"""Knows.\n\nKind: break-out\nExpect: FAILED\n"""\ndef f(x):\n    return 2\n')
    audit = Audit(sandbox, executor, [attack])
    findings = [finding async for finding in audit.run([Trial(attack)], (), 0)]
    assert [(one.good, one.verdict, one.detail) for one in findings] == [(False, Verdict.PASSED, "it got through")]


@pytest.mark.parametrize(("claimed", "left"), [("L3", Level.L2), ("L2", Level.L1)])
async def test_a_level_that_an_attack_gets_through_is_not_offered(
    monkeypatch: pytest.MonkeyPatch, claimed: str, left: Level
) -> None:
    monkeypatch.setattr(attack_suite, "attacks", lambda: (_probe(claimed),))
    async with LanePool(OPTIONS) as executor:
        if executor.capabilities.level < left:
            pytest.skip("this machine has less anyway")
        assert executor.capabilities.level is left
        assert f"{claimed} does not hold: knows, it got through" in executor.capabilities.missing
        assert (await _grade(Sandbox(executor, 1), "f = lambda x: x + 1")).level is left


async def test_below_the_least_level_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_suite, "attacks", lambda: (_probe("L1"),))
    with pytest.raises(FailedPrecondition, match="L1 is the least that is allowed here: L1 does not hold: knows"):
        async with LanePool(OPTIONS):
            pytest.fail("it started")


def _probe(level: str) -> Attack:
    source = f'"""Knows.\n\nKind: break-out\nExpect: FAILED\nFrom: {level}\nProbe: yes\n"""\nf = lambda x: 2\n'
    return parse("knows", source)


@pytest.mark.parametrize("name", UNREADABLE)
async def test_unreadable_source(sandbox: Sandbox, executor: LanePool, name: str) -> None:
    execution = await _grade(sandbox, UNREADABLE[name])
    assert execution.verdict is Verdict.COMPILE_ERROR, execution
    await _assert_nothing_is_left(sandbox, executor)


async def _assert_nothing_is_left(sandbox: Sandbox, executor: LanePool) -> None:
    """The next program finds an empty folder and works; the machine has the lane's processes, and no other."""
    source = "import os\ndef f(x):\n    assert os.listdir('/tmp') == [], os.listdir('/tmp')\n    return x + 1\n"
    execution = await _grade(sandbox, source)
    assert execution.verdict is Verdict.PASSED, execution
    assert await executor.leftovers() == []
    assert _traces()[2] == []
    assert not PWNED.exists()  # noqa: ASYNC240 (a stat)
