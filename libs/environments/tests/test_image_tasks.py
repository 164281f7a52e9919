"""Task folders with images, judged and attacked by a sandbox-service that was given them."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ratchet_environments.folders.attacks import ATTACKS
from ratchet_environments.folders.checks import audit, check_all, verify
from ratchet_environments.folders.folder import read
from ratchet_environments.folders.judging import declared, judge, solve, start
from ratchet_environments.folders.tree import File
from ratchet_environments.folders.work import Work
from ratchet_environments.workspaces import Workspaces
from ratchet_testing.sandbox import sandbox_service
from ratchet_testing.workspaces import served

from . import image_tasks

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

BY_NAME = {attack.name: attack for attack in ATTACKS}
LEAKY = "swe/leaky:1"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("images")
    image_tasks.save_image(folder)
    image_tasks.save_image(folder, LEAKY, with_its_fix=True)
    with sandbox_service(images=str(folder)) as target:
        yield target


@pytest.fixture
async def workspaces(node: str) -> AsyncIterator[Workspaces]:
    async with served(node) as found:
        yield found


async def test_solutions_pass_and_nothing_done_fails(workspaces: Workspaces, tmp_path: Path) -> None:
    paths = [image_tasks.make(tmp_path, judge) for judge in image_tasks.TESTS]
    found = await check_all(verify, workspaces, paths, lambda *_: None)
    assert [(one.fault, one.unknown) for one in found] == [("", False)] * 3


async def test_no_attack_wins_what_its_judge_holds(workspaces: Workspaces, tmp_path: Path) -> None:
    found = await audit(workspaces, image_tasks.make(tmp_path, "program"))
    assert (found.fault, [win.attack.name for win in found.wins], found.attempts) == ("", [], len(ATTACKS))


async def test_what_can_be_forged_or_is_in_the_history_is_found(workspaces: Workspaces, tmp_path: Path) -> None:
    shared = await audit(
        workspaces, image_tasks.make(tmp_path, "process"), [BY_NAME["poisoned-files"], BY_NAME["daemon"]]
    )
    assert (shared.forgeable, [win.attack.name for win in shared.wins]) == (True, ["poisoned-files"]), shared
    leaky = image_tasks.make(tmp_path, "program", LEAKY)
    found = await audit(workspaces, leaky, [BY_NAME["git-history"], BY_NAME["interpreter"]])
    assert [win.attack.name for win in found.wins] == ["git-history"], found


async def test_the_judge_gets_what_changed_and_nothing_else(workspaces: Workspaces, tmp_path: Path) -> None:
    folder = read(image_tasks.make(tmp_path, "files"))
    async with start(workspaces, folder) as workspace:
        assert await declared(workspace, folder) == Work()
        await solve(workspace, folder)
        spoil = (
            "echo evil > conftest.py; rm -r data; mkdir evil.egg-info; echo x > evil.egg-info/entry_points.txt; "
            "ln -s /tests t; echo x > .git/hooks/post-checkout; echo x >> .git/config; echo x > /usr/bin/git; "
            "echo x > /root/.gitconfig; echo new > new.txt; rm .git/description"
        )
        assert (await workspace.exec("bash", "-c", spoil, folder="testbed")).succeeded
        work = await declared(workspace, folder)
    others = {path for path in work.files if "/.git/" not in path}
    assert others == {
        "testbed/calc.py", "testbed/.wh.legacy.py", "testbed/new.txt", "testbed/data/.wh.x.txt", "testbed/.wh.data",
    }  # fmt: skip
    assert not {"testbed/.git/config", "testbed/.git/hooks/post-checkout"} & set(work.files)
    judged = await judge(workspaces, folder, work)
    assert (judged.reward, judged.forgeable) == (0.0, False), judged  # data is gone


async def test_files_and_settings_are_added_to_an_image(workspaces: Workspaces, tmp_path: Path) -> None:
    path = image_tasks.make(tmp_path, "files")
    (path / "task.toml").write_text('artifacts = ["/testbed/added", "/tmp/out"]\n[metadata.ratchet]\njudge = "files"\n')
    (path / "environment").mkdir()
    (path / "environment/x.txt").write_text("from the task")
    lines = [f"FROM {image_tasks.NAME}", "WORKDIR added", "WORKDIR /testbed", "COPY x.txt added/", "ENV COLOUR=blue"]
    (path / "environment/Dockerfile").write_text("\n".join(lines))
    (path / "solution/solve.sh").write_text(
        "cat calc.py added/x.txt > /tmp/out; echo $COLOUR >> /tmp/out; rm added/x.txt"
    )
    (path / "tests/test.sh").write_text(
        "[ ! -e added/x.txt ] && grep -q mean /tmp/out && grep -q 'from the taskblue' /tmp/out && "
        "[ $PWD$COLOUR = /testbedblue ] && echo 1 > /logs/verifier/reward.txt"
    )
    found = await verify(workspaces, path)
    assert not found.fault


async def test_what_has_no_place_beside_the_images_files_is_no_fault(workspaces: Workspaces, tmp_path: Path) -> None:
    """An agent does not get out of a verdict by what it hands over."""
    folder = read(image_tasks.make(tmp_path, "program"))
    for work in (Work({"testbed/conftest.py/x": File(b"x")}), Work({"testbed/calc.py/.wh.x": File()})):
        judged = await judge(workspaces, folder, work)
        assert judged.reward == 0.0


async def test_an_image_that_is_not_given_is_named(workspaces: Workspaces, tmp_path: Path) -> None:
    (found,) = await check_all(verify, workspaces, [image_tasks.make(tmp_path, "files", "swe/none:3")], lambda *_: None)
    assert found.unknown
    for words in ("swe/none:3", "docker save", "RATCHET_SANDBOX_IMAGES", image_tasks.NAME):
        assert words in found.fault, found.fault
