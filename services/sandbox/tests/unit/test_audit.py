"""What an attack's file says, and when an attack counts as caught."""

import asyncio
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from ratchet_kit.errors import NotFound, Unavailable
from sandbox_service.adapters import attack_suite
from sandbox_service.domain.attack import Attack, Kind, Profile, parse
from sandbox_service.domain.audit import Audit, Honest, attempt
from sandbox_service.domain.capabilities import Capabilities
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.jobs import End, Job, Report, Returned, Stage
from sandbox_service.domain.levels import Level
from sandbox_service.domain.program import CallTest, CheckTest, Program, StdioTest
from sandbox_service.domain.sandbox import Sandbox

from ..doubles import ScriptedExecutor

HEAD = "Tries.\n\nKind: break-out\nExpect: FAILED, TIME_LIMIT"


def attack(more: str = "", name: str = "a") -> Attack:
    return parse(name, f'"""{HEAD}{more}\n"""\nf = 1\n')


def test_the_file_says_it_all() -> None:
    found = attack("\nFrom: L2\nTest: check\nCheck: assert candidate(1) < 3\nProfile: strict\nRuns: 3\nProbe: yes")
    assert (found.title, found.kind, found.level) == ("Tries.", Kind.BREAK_OUT, Level.L2)
    assert found.expected == {Verdict.FAILED, Verdict.TIME_LIMIT}
    assert found.test == CheckTest("def check(candidate):\n    assert candidate(1) < 3\n")
    assert (found.profile, found.runs, found.probe) == (Profile.STRICT, 3, True)


@pytest.mark.parametrize(
    "source",
    [
        "f = 1",
        '"""Tries."""',
        '"""Tries.\n\nKind: break-out\n"""',
        '"""Tries.\n\nKind: other\nExpect: FAILED\n"""',
        '"""Tries.\n\nKind: break-out\nExpect: FAILED, PASSED\n"""',
        '"""Tries.\n\nKind: break-out\nExpect: FAILED\nUnknown: 1\n"""',
        "not python",
    ],
)
def test_a_file_that_says_too_little_is_refused_by_name(source: str) -> None:
    with pytest.raises(ValueError, match="attack a:"):
        parse("a", source)


def test_the_suite_that_ships() -> None:
    attacks = attack_suite.attacks()
    assert len(attacks) > 300
    does = {(attack.source.replace(attack.title, ""), attack.test) for attack in attacks}
    assert len(does) == len({attack.name for attack in attacks}) == len(attacks), "two do the same, or have one name"
    assert {attack.kind for attack in attacks} == set(Kind)
    assert sum(attack.probe for attack in attacks) >= 8


# Harmless enough to be let loose, in a process of their own and with no cage around it.
LOOSE = (
    "clone_by_hand environment file_names host_name multiprocessing_pool other_files outlive_the_lane posix_spawn "
    "process_files process_ids socket_families sockets subprocess_shell kernel_budgets watch_shared_files"
)


@pytest.mark.parametrize("name", LOOSE.split())
def test_an_attack_gets_through_where_nothing_stops_it(name: str) -> None:
    """Or it would be worth nothing that it's caught."""
    (attack,) = [attack for attack in attack_suite.attacks() if attack.name == name]
    # one that forks answers twice, each in one piece
    ask = f"{attack.source}\nif __name__ == '__main__':\n    os.write(1, b'answer %d\\n' % f(1))\n    os._exit(0)\n"
    command = [sys.executable, "-c", f"import os\n{ask}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert "answer 2" in done.stdout, done


class Lanes:
    def __init__(self, left: list[list[str]] | None = None) -> None:
        self._left = left or [[]]

    async def leftovers(self) -> list[str]:
        return self._left.pop(0) if len(self._left) > 1 else self._left[0]


def sandbox(*values: object, level: Level = Level.L1, processes: bool = False) -> Sandbox:
    """Answers with these values in turn; an exception is raised."""
    left = list(values)

    async def answer(job: Job) -> Report:
        value = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(value, Exception):
            raise value
        second = timedelta(seconds=1)
        return Report(End.EXITED, 0, Stage.ENDED, second, second, "x", answers=(Returned(value),), stdout=f"{value}\n")

    executor = ScriptedExecutor(answer)
    executor.capabilities = Capabilities(("x",), "3.11", 1, level=level, processes=processes)
    return Sandbox(executor, 10)


async def test_a_wrong_answer_is_a_caught_attack() -> None:
    assert (await attempt(sandbox(3), attack())).good


async def test_a_right_answer_is_one_that_got_through() -> None:
    finding = await attempt(sandbox(2), attack())
    assert (finding.good, finding.verdict, finding.detail) == (False, Verdict.PASSED, "it got through")


async def test_what_is_left_is_found_in_a_later_run() -> None:
    assert (await attempt(sandbox(3, 2), attack())).good
    assert not (await attempt(sandbox(3, 2), attack("\nRuns: 2"))).good


async def test_a_lane_taken_down_is_not_caught() -> None:
    finding = await attempt(sandbox(Unavailable("lost")), attack())
    assert (finding.good, finding.verdict) == (False, None)


async def test_an_unexpected_end_is_not_caught_unless_processes_widen_what_may_be() -> None:
    other = parse("a", '"""T.\n\nKind: break-out\nExpect: TIME_LIMIT\n"""\n')
    assert not (await attempt(sandbox(3), other)).good
    assert (await attempt(sandbox(3, processes=True), other, processes=True)).good


async def test_nothing_may_be_left() -> None:
    audit = Audit(sandbox(3, 2), Lanes([["a process"], ["a process"], []]), [attack()])
    assert [finding.good async for finding in audit.run(audit.attacks(), (), 0)] == [True]


async def test_what_stays_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_service.domain.audit._CLEAN_UP_LIMIT", timedelta(seconds=0.05))
    audit = Audit(sandbox(3), Lanes([["a process"]]), [attack()])
    (finding,) = [finding async for finding in audit.run(audit.attacks(), (), 0)]
    assert (finding.good, finding.detail) == (False, "left behind: a process")


async def test_the_next_program_must_not_suffer() -> None:
    audit = Audit(sandbox(3, 3), Lanes(), [attack()])
    (finding,) = [finding async for finding in audit.run(audit.attacks(), (), 0)]
    assert not finding.good
    assert finding.detail.startswith("the next program got FAILED")


def test_only_what_the_level_claims_is_planned() -> None:
    both = [attack(name="low"), attack("\nFrom: L2", name="high")]
    assert [one.name for one in Audit(sandbox(3), Lanes(), both).attacks()] == ["low"]
    assert [one.name for one in Audit(sandbox(3, level=Level.L2), Lanes(), both).attacks(["high"])] == ["high"]
    with pytest.raises(NotFound, match="this node, at L1, does not claim to stop attack 'high'"):
        Audit(sandbox(3), Lanes(), both).attacks(["high"])


def test_break_outs_are_tried_with_processes_too() -> None:
    suite = [attack(name="both"), attack("\nProfile: strict", name="strict")]
    planned = Audit(sandbox(3, processes=True), Lanes(), suite).attacks()
    assert [(one.attack.name, one.processes) for one in planned] == [
        ("both", False),
        ("both", True),
        ("strict", False),
    ]


def test_indented_lines_are_the_whole_test_code() -> None:
    found = attack("\nTest: shared\nCheck:\n    import math\n\n    assert f(1) == 2")
    assert found.test == CheckTest("import math\n\nassert f(1) == 2\n", shared=True)


@pytest.mark.parametrize(
    ("suffix", "source", "language"),
    [
        (".c", f"/*\n{HEAD}\n*/\nint main(void) {{}}\n", "c"),
        (".sh", "# " + HEAD.replace("\n", "\n# ") + "\n:\n", "bash"),
    ],
)
def test_other_languages_say_it_in_their_first_comment(suffix: str, source: str, language: str) -> None:
    found = parse("a", source, suffix)
    assert (found.title, found.language, found.test) == ("Tries.", language, StdioTest("1\n", "2\n"))
    assert [found.tried_with(processes) for processes in (False, True)] == [False, True]


async def test_one_that_ends_in_an_error_of_the_service_is_not_caught() -> None:
    finding = await attempt(sandbox(ValueError("zip")), attack())
    assert (finding.good, finding.verdict) == (False, None)
    assert "ValueError" in finding.detail


@pytest.mark.parametrize(("pauses", "is_caught"), [(99, False), (1, True)], ids=["the program", "the machine"])
async def test_one_that_holds_up_the_service_each_time_is_not_caught(
    monkeypatch: pytest.MonkeyPatch, pauses: int, is_caught: bool
) -> None:
    monkeypatch.setattr("sandbox_service.domain.audit._HELD_UP", timedelta(seconds=0.2))
    held = sandbox(3)
    answer, calls = held.execute, 0

    async def slowly(program: Program) -> Execution:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.1)
        if calls <= pauses:
            time.sleep(0.5)  # noqa: ASYNC251 (what it's about)
        return await answer(program)

    monkeypatch.setattr(held, "execute", slowly)
    finding = await attempt(held, attack())
    assert finding.good is is_caught
    assert finding.detail.startswith("the service answered nobody for 0.") is not is_caught


async def test_what_is_told_of_two_secrets_is_the_same() -> None:
    teller = parse("a", '"""T.\n\nKind: tell-held-out\nExpect: FAILED\n"""\n')
    assert (await attempt(sandbox(3), teller)).good
    told = await attempt(sandbox(3, Unavailable("other")), teller)
    assert not told.good


def honest(name: str = "a/b", language: str = "python") -> Honest:
    program = Program(name, "", "f", (CallTest((1,), 2),), language=language)
    return Honest(program, replace(program, source="wrong"))


async def findings(box: Sandbox, *ones: Honest, mixed: int = 0) -> list[tuple[str, bool, str]]:
    audit = Audit(box, Lanes(), [attack()], lambda: ones)
    chosen = [] if mixed else ones
    return [(one.name, one.good, one.detail) async for one in audit.run([], chosen, mixed)]


async def test_an_honest_program_passes_and_its_wrong_twin_does_not() -> None:
    assert await findings(sandbox(2, 3), honest()) == [("a/b", True, "")]
    ((_, good, detail),) = await findings(sandbox(2, 2), honest())
    assert (good, detail) == (False, "a program that answers 'wrong' passes as well")
    ((_, good, _),) = await findings(sandbox(3), honest())
    assert not good


async def test_what_the_node_lacks_is_skipped_in_words() -> None:
    assert await findings(sandbox(2), honest(language="go")) == [("a/b", True, "skipped: go is not on this node")]


async def test_the_mixed_run_tells_whom_it_judged_wrong() -> None:
    box = sandbox(2)
    told = await findings(box, honest(), mixed=20)
    assert told[-1] == ("mixed", False, "18 honest, 2 hostile: 2 judged wrong")
    assert [name for name, _, _ in told[:-1]] == ["mixed: a", "mixed: a"]
