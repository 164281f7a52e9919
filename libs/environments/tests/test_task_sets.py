"""Task folders as one file: the same bytes for the same folders, and back."""

import os
import random
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from ratchet_environments.folders import sets
from ratchet_environments.folders.folder import find, read
from ratchet_environments.folders.sets import TaskSet
from ratchet_environments.folders.tree import File, packed
from ratchet_kit.errors import InvalidArgument

from . import planted

EXAMPLES = Path(__file__).parents[3] / "examples/tasks"


def made(into: Path, *folders: Path) -> Path:
    into.mkdir(exist_ok=True)
    return sets.write({"train": folders}, into)["train"]


def contents(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(root)): (path.stat().st_mode & 0o777, path.read_bytes())
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """A folder of two task folders."""
    for place in range(2):
        planted.write(tmp_path / f"tasks/task-{place}", planted.file(random.Random(place)))
    (tmp_path / "tasks/task-0/README.md").write_text("For people.")
    (tmp_path / "tasks/task-0/solution/solve.sh").chmod(0o755)
    return tmp_path / "tasks"


def test_folders_are_read_as_from_the_disk_and_written_back(tasks: Path, tmp_path: Path) -> None:
    found = TaskSet(made(tmp_path / "made", *find([tasks, EXAMPLES])))
    found.check("train", lambda *_: None)
    assert list(found) == sorted(map(read, find([tasks, EXAMPLES])), key=lambda task: task.name)
    assert [entry.name for entry in found.entries if not entry.forgeable] == [task.name for task in found]
    old = os.umask(0o077)
    try:
        sets.unpack(found, tmp_path / "back")
    finally:
        os.umask(old)
    assert contents(tmp_path / "back") == contents(tasks) | contents(EXAMPLES)
    with pytest.raises(InvalidArgument, match="is there already"):
        sets.unpack(found, tmp_path / "back")
    assert not list(tmp_path.glob(".*")), "nothing is left beside it"


def test_the_same_folders_are_the_same_bytes(tasks: Path, tmp_path: Path) -> None:
    first, second = find([tasks])
    file = made(tmp_path / "a", second, first)
    os.utime(first / "task.toml", (1, 1))
    (first / "task.toml").chmod(0o600)
    assert made(tmp_path / "b", first, second).read_bytes() == file.read_bytes()
    before = TaskSet(file).entries
    (first / "tests/wanted.json").write_text("{}")
    (after, same) = TaskSet(made(tmp_path / "c", first, second)).entries
    changed = [
        name for name in ("environment", "tests", "solution") if getattr(after, name) != getattr(before[0], name)
    ]
    assert (changed, same) == (["tests"], before[1])
    listed = subprocess.run(["tar", "-tif", file], capture_output=True, text=True, check=True).stdout.split()
    assert {"manifest.jsonl", "task-0/task.toml", "task-1/tests/test.sh"} <= set(listed)


def test_all_wrong_folders_are_named_at_once(tasks: Path, tmp_path: Path) -> None:
    (tasks / "task-0/task.toml").write_text("[agent]\ntimeout_sec = -1")
    (tasks / "task-1/tests/test.sh").unlink()
    planted.write(tasks / "other", planted.file(random.Random(3)))
    (tasks / "other/task.toml").unlink()
    planted.write(tasks / "a name", planted.file(random.Random(4)))
    planted.write(tmp_path / "more/count-words", planted.file(random.Random(5)))
    with pytest.raises(InvalidArgument) as error:
        made(tmp_path / "made", *find([tasks, EXAMPLES, tmp_path / "more"]))
    assert [fault.field.removeprefix(f"{tmp_path}/") for fault in error.value.violations] == [
        "tasks/a name", "more/count-words", "tasks/other/task.toml", "tasks/task-0/task.toml: agent.timeout_sec",
        "tasks/task-1/tests/test.sh",
    ]  # fmt: skip


def test_the_folder_of_a_task_is_its_split(tasks: Path, tmp_path: Path) -> None:
    tasks.rename(tmp_path / "validation")
    assert list(sets.splits([tmp_path])) == ["validation"]
    assert list(sets.splits([tmp_path / "validation/task-0", EXAMPLES])) == ["validation", "train"]
    assert sets.splits([tmp_path / "made", tmp_path / "none"]) == {}
    with pytest.raises(InvalidArgument, match="made holds no task folder"):
        sets.splits([EXAMPLES, tmp_path / "made"])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b'"judge": "files"', b'"judge": "other"', "is not as the manifest says"),
        (b'"folder": "task-0"', b'"folder": "../../x"', "must name a folder"),
        (b'"name": "task-1"', b'"name": "task-0"', "must name a folder and a task of its own"),
        (b'"size_bytes": ', b'"size_bytes": -', "must name a folder"),
        (b'"size_bytes": ', b'"size_bytes": 99', "more bytes than there are"),
        (b'"size_bytes": ', b'"no": ', "is no task"),
        (b'{"folder"', b'["folder"', "is no task"),
        (b"mode = 1", b"mode = 2", "is not as the manifest says"),
    ],
)
def test_a_strangers_file_is_refused(tasks: Path, tmp_path: Path, old: bytes, new: bytes, words: str) -> None:
    (tasks / "task-0/README.md").write_text("mode = 1")
    file = made(tmp_path / "made", *find([tasks]))
    head = TaskSet(file).head
    tars = file.read_bytes()[len(head) :].replace(old, new)
    manifest = head[512:].rstrip(b"\0").replace(old, new)
    file.write_bytes(packed({"manifest.jsonl": File(manifest)}) + tars)
    with pytest.raises(InvalidArgument, match=words):
        TaskSet(file).check("train", lambda *_: None)


def test_other_packing_and_other_files_are_refused(tasks: Path, tmp_path: Path) -> None:
    file = made(tmp_path / "made", *find([tasks]))
    whole, found = file.read_bytes(), TaskSet(file)
    tar = found.tar(found.entries[0])
    into = BytesIO()
    with tarfile.open(fileobj=BytesIO(tar)) as before, tarfile.open(fileobj=into, mode="w") as after:
        for entry in before:
            entry.mtime = 7
            after.addfile(entry, before.extractfile(entry))
    for wrong, words in (
        (whole.replace(tar, into.getvalue()), "train/task-0 is not packed"),
        (whole.replace(tar, b"x" * len(tar)), "train/task-0 is no tar"),
        (whole.replace(tar, bytes(512) + tar), r"train/manifest\.jsonl is not packed"),
        (tar, r"manifest\.jsonl must be the first"),
        (packed({"manifest.jsonl": File()}), r"manifest\.jsonl must"),
        (b"PAR1", r"manifest\.jsonl can't be read"),
    ):
        file.write_bytes(wrong)
        with pytest.raises(InvalidArgument, match=words):
            TaskSet(file).check("train", lambda *_: None)


def test_folders_are_read_after_their_file_made_room_for_others(tasks: Path, tmp_path: Path) -> None:
    file = made(tmp_path / "packed", *find([tasks]))
    packed_tasks = TaskSet(file)
    file.unlink()
    assert [task.name for task in packed_tasks] == [read(folder).name for folder in find([tasks])]
