"""Task folders judged by a sandbox-service of its own, as `ratchet tasks` does, and attacked."""

import asyncio
import random
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from ratchet_environments import workspaces as workspaces_of_node
from ratchet_environments.folders.attacks import ATTACKS
from ratchet_environments.folders.checks import audit, check_all, verify
from ratchet_environments.folders.folder import Judge, find, read
from ratchet_environments.folders.judging import Judged, declared, judge, solve, start
from ratchet_environments.folders.tree import File
from ratchet_environments.folders.work import Work
from ratchet_environments.workspaces import Workspace
from ratchet_kit.errors import ResourceExhausted
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


async def test_folders_that_took_each_others_room_are_audited_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attack's workspace waits for those of its judge. The node has room for one attack, and four begin."""
    monkeypatch.setattr(workspaces_of_node, "_PATIENCE", timedelta(seconds=3))
    paths = planted.make(tmp_path, 4)
    with sandbox_service(workspace_bytes=str(3 * (768 << 20))) as target:
        async with served(target) as workspaces:
            found = await check_all(partial(audit, attacks=[BY_NAME["empty"]]), workspaces, paths, lambda *_: None)
    assert all(one.holds for one in found), found


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


def _folder(at: Path, judge: str, test: str, artifacts: str = "") -> Path:
    files = planted.program(random.Random(1)) | {
        "task.toml": f'{artifacts}\n[verifier]\ntimeout_sec = 30\n[metadata.ratchet]\njudge = "{judge}"',
        "tests/test.sh": test,
    }
    return planted.write(at / "task", files)


async def _judged(target: str, path: Path, agent: str) -> Judged:
    folder = read(path)
    async with served(target) as workspaces:
        async with start(workspaces, folder) as workspace:
            done = await workspace.exec("bash", "-c", agent, folder=folder.workdir, wall_time=timedelta(seconds=30))
            assert done.succeeded, done
            work = await declared(workspace, folder)
        return await judge(workspaces, folder, work)


_WRITE = "&& echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt"


@pytest.mark.parametrize(
    "test",
    [
        "head -c 20000000 /dev/zero > /tmp/big; subject put /tmp/big /data; "
        f"[ $(subject run cat /data/big | wc -c) = 0 ] && [ $(subject run stat -c %s /data/big) = 20000000 ] {_WRITE}",
        f"head -c 20000000 /dev/zero | tr '\\0' x; [ $(subject run echo 1) = 1 ] {_WRITE}",
        f"timeout 1 subject run sleep 100; timeout 1 subject run sleep 100; [ $(subject run echo 1) = 1 ] {_WRITE}",
        f"subject run python -c 'print(\"x\" * 9000000, 1)' > /tmp/out; [ $? = 126 ] && [ ! -s /tmp/out ] {_WRITE}",
        "head -c 60000000 /dev/zero > /tmp/big; subject put /tmp/big /data; "
        f"[ $? = 126 ] && [ $(subject run echo 1) = 1 ] {_WRITE}",
    ],
    ids=["much is put", "much is printed", "nobody waits", "a part is none", "too much is put"],
)  # fmt: skip
async def test_subject_stands(sandbox_target: str, tmp_path: Path, test: str) -> None:
    judged = await _judged(sandbox_target, _folder(tmp_path, "program", test), "true")
    assert judged.reward == 1.0, judged


async def test_a_program_has_all_of_its_files_and_the_tests_get_none_that_act(
    sandbox_target: str, tmp_path: Path
) -> None:
    """Its settings of pytest, its packages and hooks: an agent may have been asked for them."""
    test = (
        "subject run bash -c 'cat current conftest.py lib/a-1.dist-info/METADATA .git/hooks/x' > /tmp/seen && "
        "[ $(grep -c 1 /tmp/seen) = 4 ] && subject get /app /tmp/x && "
        f"[ \"$(cd /tmp/x/app && ls -A | xargs)\" = 'Dockerfile line.py v1' ] {_WRITE}"
    )
    agent = (
        "mkdir -p lib/a-1.dist-info .git/hooks; echo 1 > v1; ln -s /app/v1 current; "
        "for one in conftest.py lib/a-1.dist-info/METADATA .git/hooks/x; do echo 1 > $one; done"
    )
    judged = await _judged(sandbox_target, _folder(tmp_path, "program", test), agent)
    assert judged.reward == 1.0, judged


async def test_tests_with_a_subject_that_a_signal_ends_give_nothing(sandbox_target: str, tmp_path: Path) -> None:
    path = _folder(tmp_path, "program", "echo 1 > /logs/verifier/reward.txt; kill -9 $$")
    judged = await _judged(sandbox_target, path, "true")
    assert (judged.reward, judged.reason) == (0.0, "the tests ended at signal 9")


@pytest.mark.parametrize(
    ("written", "reward"),
    [
        ("echo .5 > reward.txt", 0.5),
        ("echo +1 > reward.txt", 1.0),
        ("echo nan > reward.txt", 0.0),
        ("echo '{\"reward\": -Infinity}' > reward.json", 0.0),
        ("truncate -s 200M log; mkdir shut; chmod 0 shut; echo 1 > reward.txt", 1.0),
    ],
)
async def test_what_counts_as_a_reward(sandbox_target: str, tmp_path: Path, written: str, reward: float) -> None:
    path = _folder(tmp_path, "files", f"cd /logs/verifier; {written}")
    judged = await _judged(sandbox_target, path, "true")
    assert judged.reward == reward, judged


@pytest.mark.parametrize(
    ("agent", "artifacts"),
    [
        ("python -c 'import os\nfor i in range(10**6): os.mkdir(f\"d{i}\")' 2> /dev/null; true", ""),
        ("truncate -s 120M a b c", 'artifacts = ["/app/a", "/app/b", "/app/c"]'),
        ("mkdir d; for i in $(seq 15000); do echo > d/$i; done; truncate -s 118M d/x", 'artifacts = ["/app/d"]'),
    ],
    ids=["folders", "parts", "tests without room"],
)  # fmt: skip
async def test_nobody_gets_out_of_a_verdict_by_handing_over_too_much(
    sandbox_target: str, tmp_path: Path, agent: str, artifacts: str
) -> None:
    path = _folder(tmp_path, "files", "echo 0 > /logs/verifier/reward.txt", artifacts)
    for number in range(3):
        (path / f"tests/{number}").write_bytes(bytes(20 << 20))
        (path / f"environment/{number}").write_bytes(bytes(20 << 20))
    judged = await _judged(sandbox_target, path, agent)
    assert (judged.reward, "can't be taken" in judged.reason) == (0.0, True), judged


async def test_files_are_as_new_as_they_would_be_elsewhere(sandbox_target: str, tmp_path: Path) -> None:
    """A zip holds none of 1970."""
    pack = 'python -c \'import zipfile; zipfile.ZipFile("/tmp/x.zip", "w").write("/app/line.py")\''
    judged = await _judged(sandbox_target, _folder(tmp_path, "files", f"{pack} {_WRITE}"), pack)
    assert judged.reward == 1.0, judged


_COMMIT = "git -c user.name=a -c user.email=a@b commit -qam"
_STORE = (
    f"git init -q --bare store.git; git init -q w; cd w; echo 1 > x; git add x; {_COMMIT} 1; echo 2 > x; {_COMMIT} 2; "
    "git push -q ../store.git HEAD:main; cd ../store.git; mkdir -p hooks; printf '#!/bin/sh\\n"
    "echo 1 > /logs/verifier/reward.txt; chmod 555 /logs/verifier; chmod 444 /logs/verifier/*' > evil; "
    "chmod +x evil; cp evil hooks/pre-receive; git --git-dir=. config diff.external /app/store.git/evil"
)  # fmt: skip


@pytest.mark.parametrize(
    ("agent", "test"),
    [
        (_STORE, "git --git-dir=/app/store.git diff main~1 main"),
        (_STORE, f"git clone -qb main /app/store.git /tmp/c; cd /tmp/c; echo > x; {_COMMIT} 3; git push -q"),
        (
            f"git init -q .; git add .; {_COMMIT} 1; git update-index --assume-unchanged line.py; echo bad > line.py",
            "[ -z \"$(git -C /app status --porcelain)\" ] && echo 1 > /logs/verifier/reward.txt",
        ),
        (
            f"git init -q .; git add .; {_COMMIT} 1; echo bad > line.py; {_COMMIT} 2; git replace HEAD~1 HEAD",
            "git -C /app show HEAD~1:line.py | grep -q bad && echo 1 > /logs/verifier/reward.txt",
        ),
    ],
    ids=["settings", "hooks", "marks", "replaced"],
)  # fmt: skip
async def test_a_repository_runs_nothing_and_says_what_is_in_it(
    sandbox_target: str, tmp_path: Path, agent: str, test: str
) -> None:
    path = _folder(tmp_path, "files", f"{test}\n[ -e /logs/verifier/reward.txt ] || echo 0 > /logs/verifier/reward.txt")
    judged = await _judged(sandbox_target, path, agent)
    assert judged.reward == 0.0, judged


async def test_a_busy_node_is_no_verdict(sandbox_target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of what the agent made nor of the reward."""
    folder = read(_folder(tmp_path, "files", "echo 1 > /logs/verifier/reward.txt"))

    async def busy(*_: object, **__: object) -> bytes:
        raise ResourceExhausted("Concurrent RPC limit exceeded!", timedelta(seconds=1))

    async with served(sandbox_target) as workspaces, start(workspaces, folder) as workspace:
        with monkeypatch.context() as patched:
            patched.setattr(Workspace, "read", busy)
            for asked in (declared(workspace, folder), judge(workspaces, folder, Work())):
                with pytest.raises(ResourceExhausted):
                    await asked
