"""Task folders judged by a sandbox-service of its own, as `ratchet tasks` does, and attacked."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet_environments import workspaces as workspaces_of_node
from ratchet_environments.folders.attacks import ATTACKS
from ratchet_environments.folders.checks import audit, check_all, verify
from ratchet_environments.folders.folder import Judge, find, read
from ratchet_environments.folders.judging import declared, judge, solve, start
from ratchet_environments.folders.tree import File
from ratchet_environments.folders.work import Work
from ratchet_testing.sandbox import sandbox_service
from ratchet_testing.workspaces import served

from . import planted

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[3] / "examples/tasks"
BY_NAME = {attack.name: attack for attack in ATTACKS}


async def test_examples_hold_and_others_are_made(sandbox_target: str, tmp_path: Path) -> None:
    async with served(sandbox_target) as workspaces:
        found = await check_all(verify, workspaces, [*find([EXAMPLES]), *planted.make(tmp_path, 2)], lambda *_: None)
    assert not [(one.name, one.fault) for one in found if not one.holds]


async def test_a_solution_that_fails_and_a_task_that_is_done_do_not_hold(sandbox_target: str, tmp_path: Path) -> None:
    wrong, done, broken = planted.make(tmp_path, 3)
    (wrong / "solution/solve.sh").write_text("true")
    (done / "tests/test.sh").write_text("echo 1 > /logs/verifier/reward.txt")
    (broken / "solution/solve.sh").write_text("echo no; exit 3")
    async with served(sandbox_target) as workspaces:
        faults = [one.fault for one in await check_all(verify, workspaces, [wrong, done, broken], lambda *_: None)]
    assert [fault.split(":")[0] for fault in faults] == [
        "the solution does not pass", "an agent that does nothing passes", "solution/solve.sh ends with status 3",
    ]  # fmt: skip


async def test_known_holes_are_found_by_name(sandbox_target: str, tmp_path: Path) -> None:
    async with served(sandbox_target) as workspaces:
        for path, name in planted.make_holes(tmp_path).items():
            found = await audit(workspaces, path, [BY_NAME[name]])
            assert [win.attack.name for win in found.wins] == [name], found


async def test_no_attack_wins(sandbox_target: str, tmp_path: Path) -> None:
    async with served(sandbox_target) as workspaces:
        found = await check_all(audit, workspaces, planted.make(tmp_path, 2), lambda *_: None)
    assert all(one.holds and one.attempts == len(ATTACKS) for one in found), found


async def test_judges_side_by_side_wait_for_one_another_where_there_is_room_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each needs two workspaces. If several had one each and waited for another, none would come to its end."""
    monkeypatch.setattr(workspaces_of_node, "_PATIENCE", timedelta(seconds=30))
    folder = read(EXAMPLES / "fix-average")
    assert folder.judge is Judge.PROGRAM
    with sandbox_service(workspace_bytes=str(2 * (768 << 20))) as target:
        async with served(target) as workspaces:
            judged = await asyncio.gather(*(judge(workspaces, folder, Work()) for _ in range(5)))
    assert [one.reward for one in judged] == [0.0] * 5


async def test_attacks_run_to_their_end(sandbox_target: str, tmp_path: Path) -> None:
    folder = read(planted.make(tmp_path, 2)[1])
    async with served(sandbox_target) as workspaces:
        for attack in ATTACKS:
            async with start(workspaces, folder) as workspace:
                script = attack.script("/tmp/app", ["/tmp/app/sorted.json"], ["/tests/wanted.json"])
                done = await workspace.exec("python", "-c", script, folder="app")
                assert done.succeeded, (attack.name, done)


@pytest.mark.full
async def test_two_hundred_exploits_win_nothing_and_every_solution_passes(sandbox_target: str, tmp_path: Path) -> None:
    paths = planted.make(tmp_path, 12)
    async with served(sandbox_target) as workspaces:
        found = await check_all(audit, workspaces, paths, lambda *_: None)
    assert sum(one.attempts for one in found) >= 200
    assert not [one for one in found if not one.holds]


async def test_a_forgeable_reward_is_none_unless_asked_for(sandbox_target: str, tmp_path: Path) -> None:
    folder = read(next(iter(planted.make_holes(tmp_path))))
    assert folder.judge is Judge.PROCESS
    async with served(sandbox_target) as workspaces:
        async with start(workspaces, folder) as workspace:
            await solve(workspace, folder)
            work = await declared(workspace, folder)
        kept = await judge(workspaces, folder, work)
        assert (kept.reward, kept.forgeable, kept.passed) == (None, True, False)
        asked = await judge(workspaces, folder, work, forgeable=True)
        assert (asked.reward, asked.forgeable) == (1.0, True)


async def test_the_program_runs_where_neither_tests_nor_reward_are(sandbox_target: str, tmp_path: Path) -> None:
    """It says what it sees: the judge compares with nothing."""
    (path,) = planted.make(tmp_path, 1)
    (path / "tests/test.sh").write_text(
        "subject run python line.py < /dev/null > /tmp/seen\n"
        "test ! -e /app/line.py && test -e /tests/test.sh && [ \"$(cat /tmp/seen)\" = '[] []' ] && "
        "subject get /app /tmp/back && test -e /tmp/back/app/line.py && echo 1 > /logs/verifier/reward.txt\n"
    )
    seen = "import glob; print(glob.glob('/tests/*'), glob.glob('/logs/verifier/*') + glob.glob('/tmp/.ratchet/*'))"
    async with served(sandbox_target) as workspaces:
        judged = await judge(workspaces, read(path), Work({"app/line.py": File(seen.encode())}))
    assert judged.reward == 1.0, judged


async def test_tests_of_harbors_template_run_by_the_runtimes_packages(sandbox_target: str, tmp_path: Path) -> None:
    """They fetch uv, and run a module by it with packages that it is to bring."""
    path = planted.make(tmp_path, 2)[1]
    (path / "tests/test.sh").write_text(
        "apt-get update; curl -LsSf https://example.com/uv/install.sh | sh\nsource $HOME/.local/bin/env\n"
        "uvx --with x==1 -p 3.13 --no-cache-dir unittest test_state && uv run --with x unittest test_state\n"
        "if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi\n"
        "command -v pytest; uv pip install x\n"
    )
    async with served(sandbox_target) as workspaces:
        found = await verify(workspaces, path)
        nothing = await judge(workspaces, read(path), Work())
    assert found.holds, found.fault
    assert nothing.reward == 0.0
    assert "/.ratchet/bin/pytest\n" in nothing.output
    assert "uv pip: a workspace has no network" in nothing.output


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        ("echo 1 > /logs/verifier/reward.txt; kill -9 $$", "the tests ended at signal 9"),
        ("echo 1 > /logs/verifier/reward.txt; sleep 60", "the tests ended at the wall limit"),
        ("true", "the tests wrote no reward, and ended with status 0"),
        ("ln -s /tests/wanted.json /logs/verifier/reward.txt", "the tests wrote no reward, and ended with status 0"),
    ],
)
async def test_tests_that_do_not_end_by_themselves_give_nothing(
    sandbox_target: str, tmp_path: Path, test: str, reason: str
) -> None:
    path = planted.make(tmp_path, 2)[1]
    (path / "tests/test.sh").write_text(test)
    (path / "task.toml").write_text('[verifier]\ntimeout_sec = 3\n[metadata.ratchet]\njudge = "files"')
    async with served(sandbox_target) as workspaces:
        judged = await judge(workspaces, read(path), Work())
    assert (judged.reward, judged.reason) == (0.0, reason)
