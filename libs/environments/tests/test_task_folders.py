"""Task folders read from files that a stranger made, and an agent's files cleaned of what acts by itself."""

import os
import random
import tarfile
from collections.abc import Callable
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import pytest

from ratchet_environments.folders import tree, work
from ratchet_environments.folders.folder import Artifact, Judge, find, read
from ratchet_environments.folders.tree import File, packed
from ratchet_kit.errors import InvalidArgument

from . import planted

EXAMPLES = Path(__file__).parents[3] / "examples/tasks"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return planted.write(tmp_path / "task", planted.file(random.Random(1)))


def test_a_folder_is_read(folder: Path) -> None:
    found = read(folder)
    assert (found.name, found.judge, found.workdir) == ("task", Judge.FILES, "app")
    assert set(found.environment) == {"app/Dockerfile", "app/numbers.json"}
    assert set(found.tests) == {"tests/test.sh", "tests/test_state.py", "tests/wanted.json"}
    assert found.artifacts == (Artifact("app"),)
    assert found.verifier_timeout == timedelta(seconds=60)


def test_harbors_own_fields_are_read(folder: Path) -> None:
    (folder / "task.toml").write_text(
        """
        version = "1.0"
        artifacts = ["/app/out.txt", { source = "/app/src", exclude = ["*.log", ".git"] }, "/logs/artifacts"]
        [task]
        name = "org/name"
        [metadata]
        anything = [1, 2]
        [agent]
        timeout_sec = 12.5
        [verifier]
        env = { A = "1" }
        environment_mode = "separate"
        [environment]
        memory_mb = 512
        cpus = 2
        unknown = true
        """
    )
    found = read(folder)
    assert found.name == "org/name"
    assert found.judge is Judge.PROCESS
    assert found.artifacts == (
        Artifact("app/out.txt"), Artifact("app/src", ("*.log", ".git")), Artifact("logs/artifacts"),
    )  # fmt: skip
    assert (found.memory_bytes, found.verifier_variables) == (512 << 20, {"A": "1"})


def test_the_examples_are_read() -> None:
    assert {read(path).judge for path in find([EXAMPLES])} == {Judge.FILES, Judge.PROGRAM}


@pytest.mark.parametrize(
    ("text", "named", "words"),
    [
        ("FROM ubuntu:24.04\nWORKDIR /app\nRUN apt-get install x", "Dockerfile:3", "docker save"),
        ("FROM $BASE", "Dockerfile:1", "no name of an image"),
        ("FROM team/app:1\nFROM team/other:1", "Dockerfile:2", "stages"),
        ("FROM team/app:1\nWORKDIR /proc/x", "Dockerfile:2", "no folder of a task"),
        ("FROM team/app:1\nWORKDIR /tmp/.ratchet/bin", "Dockerfile:2", "no folder of a task"),
        ("FROM python:3.12\nRUN pip install \\\n  numpy", "Dockerfile:2", "ratchet sandbox runtime add"),
        ("FROM python:3.12\nCOPY --from=other /x /app", "Dockerfile:2", "--from"),
        ("FROM python:3.12\nADD https://example.com/x /app", "Dockerfile:2", "URL"),
        ("FROM python:3.12\nCOPY none.txt /app", "Dockerfile:2", "none.txt"),
        ("FROM python:3.12\nCOPY numbers.json /etc/x", "Dockerfile:2", "/app"),
        ("FROM python:3.12\nCOPY numbers.json /app/../../etc/x", "Dockerfile:2", "/app"),
        ("FROM python:3.12\nWORKDIR /root", "Dockerfile:2", "/app"),
        ("FROM python:3.12\nONBUILD COPY . .", "Dockerfile:2", "ONBUILD"),
        ("FROM python:3.12\n" + "COPY . /app\n" * 300, "Dockerfile", "200 instructions"),
        ("FROM python:3.12\n" + "\\\n" * 200_000, "Dockerfile", "bytes"),
    ],
)
def test_a_dockerfile_that_needs_an_image_is_refused(folder: Path, text: str, named: str, words: str) -> None:
    (folder / "environment/Dockerfile").write_text(text)
    with pytest.raises(InvalidArgument) as refused:
        read(folder)
    assert named in refused.value.violations[0].field
    assert words in refused.value.violations[0].description


def test_an_image_may_be_held_to_its_digest(folder: Path) -> None:
    (folder / "environment/Dockerfile").write_text(f"FROM python:3.12.7-slim@sha256:{'1c' * 32}\nCOPY . /app/")
    assert "app/numbers.json" in read(folder).environment


@pytest.mark.parametrize(
    ("flag", "mode"), [("755", 0o755), ("0644", 0o644), ("+x", 0o755), ("u+rwx", 0o755), ("a-x", 0o644), ("600", 0o644)]
)
def test_modes_of_copies(folder: Path, flag: str, mode: int) -> None:
    (folder / "environment/Dockerfile").write_text(f"FROM python:3.12\nCOPY --chmod={flag} numbers.json /app/")
    assert read(folder).environment["app/numbers.json"].mode == mode


def test_an_image_and_what_is_added_to_it(folder: Path) -> None:
    lines = [
        "FROM --platform=linux/amd64 docker.io/team/app AS x",
        "WORKDIR /opt/app",
        "COPY numbers.json .",
        "ENV A=1",
    ]
    (folder / "environment/Dockerfile").write_text("\n".join([*lines, "COPY numbers.json /tmp/numbers.json"]))
    (folder / "task.toml").write_text('artifacts = ["/opt/app/out", "/tmp/x"]')
    found = read(folder)
    assert (found.runtime, found.workdir, found.has_image) == ("team/app:latest", "opt/app", True)
    assert set(found.environment) == {"opt/app/numbers.json", "tmp/numbers.json"}
    assert [one.path for one in found.artifacts] == ["opt/app/out", "tmp/x"]
    assert (found.absolute("opt/app"), found.temporary("x")) == ("/opt/app", "tmp/x")


def test_a_built_image_stands_for_its_dockerfile(folder: Path) -> None:
    (folder / "environment/Dockerfile").write_text("FROM ubuntu\nRUN make\nWORKDIR /testbed\nWORKDIR sub\nCOPY x y")
    (folder / "task.toml").write_text('[environment]\ndocker_image = "team/app:1"')
    found = read(folder)
    assert (found.runtime, found.workdir, dict(found.environment)) == ("team/app:1", "testbed/sub", {})
    (folder / "environment/Dockerfile").unlink()
    with pytest.raises(InvalidArgument, match=r"environment\.workdir"):
        read(folder)
    (folder / "task.toml").write_text('[environment]\ndocker_image = "team/app:1"\nworkdir = "/root/work"')
    assert [one.path for one in read(folder).artifacts] == ["root/work"]


@pytest.mark.parametrize("path", ["/", "/tmp", "/usr/bin", "/etc", "/lib/x", "/tests/x", "/tmp/.ratchet", "/proc/1"])
def test_folders_of_an_images_system_are_no_artifacts(folder: Path, path: str) -> None:
    text = f'artifacts = ["{path}"]\n[environment]\ndocker_image = "a:1"\nworkdir = "/usr/src/app"'
    (folder / "task.toml").write_text(text)
    with pytest.raises(InvalidArgument, match="artifacts"):
        read(folder)


def test_what_was_removed_of_an_image_is_taken(folder: Path) -> None:
    (folder / "task.toml").write_text('[environment]\ndocker_image = "a:1"\nworkdir = "/testbed"')
    names = ["testbed/.wh.a", "testbed/.wh.conftest.py", "root/.wh.a", "testbed/.git/.wh.config", "testbed/d/e/.wh.f"]
    found = work.clean(read(folder), packed(dict.fromkeys(names, File())))
    assert list(found.files) == ["testbed/.wh.a", "testbed/d/e/.wh.f"]
    (tar,) = found.tars
    assert tar.index(b"testbed/d/e/.wh.f") < tar.index(b"testbed/.wh.a")


def test_a_runtime_stands_for_an_image(folder: Path) -> None:
    (folder / "environment/Dockerfile").write_text("FROM ubuntu:24.04\nRUN apt-get install x\nWORKDIR /work\nCOPY . .")
    (folder / "task.toml").write_text('[metadata.ratchet]\nruntime = "numpy"')
    found = read(folder)
    assert (found.runtime, found.workdir) == ("numpy", "work")


def test_places_of_copies(folder: Path) -> None:
    (folder / "environment/src/deep").mkdir(parents=True)
    (folder / "environment/src/deep/a.py").write_text("a")
    lines = ["FROM python:3.12", "WORKDIR /app", "COPY src lib/", "COPY numbers.json /data/", "COPY *.json one.json"]
    (folder / "environment/Dockerfile").write_text("\n".join([*lines, 'ENV A=1 B="two words"']))
    found = read(folder)
    assert set(found.environment) == {"app/lib/deep/a.py", "data/numbers.json", "app/one.json"}
    assert found.variables == {"A": "1", "B": "two words"}


def _breaks(path: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / path).write_text(text)


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        (_breaks("task.toml", "x = "), "task.toml"),
        (_breaks("task.toml", "a = " + "[" * 30_000), "task.toml"),
        (_breaks("task.toml", "x = 1\n" * 40_000), "task.toml"),
        (_breaks("task.toml", '[metadata.ratchet]\njudge = "mine"'), "metadata.ratchet.judge"),
        (_breaks("task.toml", "[agent]\ntimeout_sec = -1"), "agent.timeout_sec"),
        (_breaks("task.toml", "[agent]\ntimeout_sec = nan"), "agent.timeout_sec"),
        (_breaks("task.toml", 'agent = "x"'), "agent"),
        (_breaks("task.toml", '[verifier.env]\nKEY = "${KEY}"'), "verifier.env.KEY"),
        (_breaks("task.toml", '[environment]\ndocker_image = "X y"'), "environment.docker_image"),
        (_breaks("task.toml", '[verifier.environment]\ndocker_image = "x/y"'), "verifier.environment.docker_image"),
        (_breaks("task.toml", 'artifacts = ["/tmp"]'), "artifacts"),
        (_breaks("task.toml", 'artifacts = ["/tests/x"]'), "artifacts"),
        (_breaks("task.toml", 'artifacts = ["/tmp/logs/verifier"]'), "artifacts"),
        (_breaks("task.toml", 'artifacts = ["/tmp/.ratchet"]'), "artifacts"),
        (_breaks("task.toml", '[[steps]]\nname = "x"'), "steps"),
        (_breaks("task.toml", '[task]\nname = "../x"'), "task.name"),
        (lambda folder: (folder / "tests/test.sh").unlink(), "tests/test.sh"),
        (lambda folder: (folder / "instruction.md").unlink(), "instruction.md"),
        (lambda folder: (folder / "instruction.md").write_bytes(b"\xff"), "instruction.md"),
        (lambda folder: (folder / "tests/x").symlink_to("/etc/passwd"), "tests/x"),
        (lambda folder: (folder / "environment/x").symlink_to("."), "environment/x"),
        (lambda folder: os.mkfifo(folder / "tests/pipe"), "tests/pipe"),
        (lambda folder: (folder / "tests/\n").write_text(""), "tests"),
    ],
)
def test_what_a_stranger_made_is_refused_by_name(folder: Path, broken: Callable[[Path], object], named: str) -> None:
    broken(folder)
    with pytest.raises(InvalidArgument) as refused:
        read(folder)
    assert named in refused.value.violations[0].field
    assert str(folder) in refused.value.message


def test_the_files_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MOST_FILES", 2)
    with pytest.raises(InvalidArgument, match="more than 2 files"):
        read(folder)
    monkeypatch.setattr(tree, "MOST_FILES", 10)
    monkeypatch.setattr(tree, "MOST_BYTES", 100)
    with pytest.raises(InvalidArgument, match="too large"):
        read(folder)


def test_only_what_was_declared_is_taken(folder: Path) -> None:
    given = {name: File(b"x") for name in ("app/a", "app2/a", "tests/test.sh", "logs/verifier/reward.txt", ".bashrc")}
    assert set(work.clean(read(folder), packed(given)).files) == {"app/a"}


def test_what_a_dockerfile_makes_is_bounded(folder: Path) -> None:
    (folder / "environment/big").write_bytes(bytes(1 << 20))
    lines = [f"COPY big /app/{number}" for number in range(100)]
    (folder / "environment/Dockerfile").write_text("\n".join(["FROM python:3.12", *lines]))
    with pytest.raises(InvalidArgument, match="copy each once"):
        read(folder)


@pytest.mark.parametrize("link", ["/tests/wanted.json", "../tests/wanted.json", "x/../../tests", "..", "/app/a", "."])
def test_links_that_lead_out_are_left_out(folder: Path, link: str) -> None:
    assert not work.clean(read(folder), packed({"app/link": File(link=link)})).files


def test_an_index_of_git_is_no_link(folder: Path) -> None:
    """To one whose marks stay: such as lie under another name."""
    given = {"app/.git/index": File(link="../marked"), "app/marked": File(b"x")}
    assert set(work.clean(read(folder), packed(given)).files) == {"app/marked"}


def test_links_that_stay_are_taken(folder: Path) -> None:
    given = {"app/a/link": File(link="../b"), "app/b": File(b"x")}
    assert work.clean(read(folder), packed(given)).files == given


@pytest.mark.parametrize(
    "name",
    [
        "app/a.egg-info/entry_points.txt",
        "app/conftest.py", "app/deep/sitecustomize.py", "app/evil.pth", "app/__pycache__/x.pyc", "app/pytest.ini",
        "app/.git/hooks/pre-commit", "app/sub/.git/hooks/x", "app/.git/modules/m/hooks/x", "app/.git/config.worktree",
        "app/.git/hooks/.git/refs/x", "app/.git/refs/.git/hooks/x",
        "app/.git/commondir", "app/.git",
    ],
)  # fmt: skip
def test_what_acts_by_itself_is_left_out(folder: Path, name: str) -> None:
    assert not work.clean(read(folder), packed({name: File(b"evil")})).files


@pytest.mark.parametrize("name", ["refs/heads/fix/config", "logs/refs/heads/hooks/x", "refs/remotes/hooks/main"])
def test_branches_have_any_name(folder: Path, name: str) -> None:
    given = {f"app/.git/{name}": File(b"x")}
    assert work.clean(read(folder), packed(given)).files == given


def test_what_acts_by_itself_stays_as_the_task_had_it(folder: Path) -> None:
    (folder / "environment/conftest.py").write_text("# the task's")
    found = work.clean(read(folder), packed({"app/conftest.py": File(b"evil"), "app/.git/config": File(b"evil")})).files
    assert found["app/conftest.py"].content == b"# the task's"
    assert b"evil" not in found["app/.git/config"].content


def test_programs_have_all_of_their_files_where_no_tests_are(tmp_path: Path) -> None:
    names = ["app/conftest.py", "app/lib/a.dist-info/METADATA", "app/.git/hooks/pre-commit", "app/.git/config"]
    files = {name: File(b"x", 0o755) for name in names} | {"app/venv/bin/python": File(link="/usr/bin/python3")}
    program = read(planted.write(tmp_path / "program", planted.program(random.Random(1))))
    found = work.clean(program, packed({**files, "tests/test.sh": File(b"evil"), "data/x": File()}, ["app/empty"]))
    assert (found.files, found.folders) == (files, ("app/empty",))
    assert not work.inert(files), "nor do the tests get these"


def test_deep_folders_hold_nobody_up(folder: Path) -> None:
    """Twenty thousand files of such paths took a quarter of an hour."""
    with pytest.raises(InvalidArgument, match="deeper than 100 folders"):
        work.clean(read(folder), packed({f"app/{'a/' * 1900}x": File(b"x")}))


def test_a_tar_of_a_stranger(folder: Path) -> None:
    into = BytesIO()
    with tarfile.open(fileobj=into, mode="w") as archive:
        for name, kind in (("app/device", tarfile.CHRTYPE), ("app/hard", tarfile.LNKTYPE), ("app/../tests/x", b"0")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "tests/test.sh"
            archive.addfile(entry)
    assert not work.clean(read(folder), into.getvalue()).files
    with pytest.raises(InvalidArgument):
        work.clean(read(folder), b"x" * 2048)
