"""`ratchet tasks` on a data set: folders come from the platform, verdicts go there."""

import base64
import random
from pathlib import Path
from typing import Any

import pytest

from ratchet_cli.commands import task_sets
from ratchet_client.datasets import sha256
from ratchet_environments.folders import sets
from ratchet_environments.folders.attacks import ATTACKS
from ratchet_environments.folders.checks import Checked, Win
from ratchet_environments.folders.folder import find, read
from ratchet_kit.errors import FailedPrecondition, InvalidArgument
from ratchet_kit.names import DatasetRef
from ratchet_testing.gateway import ScriptedGateway

EXAMPLES = Path(__file__).parents[4] / "examples/tasks"


@pytest.fixture
def split(tmp_path: Path) -> Path:
    return sets.write({"train": find([EXAMPLES])}, tmp_path)["train"]


@pytest.fixture
def platform(gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> ScriptedGateway:
    monkeypatch.setenv("RATCHET_URL", gateway.url)
    monkeypatch.setenv("RATCHET_API_KEY", "rk_key")
    return gateway


def version(split: Path, **card: Any) -> dict[str, Any]:
    content = {"name": "train", "content_bytes": split.stat().st_size, "content_sha256": sha256(split)}
    return {"dataset": {"name": "mine", "number": 2, "state": "STATE_READY", "splits": [content], "card": card}}


def test_folders_are_those_of_places_and_of_data_sets(platform: ScriptedGateway, split: Path, tmp_path: Path) -> None:
    data = {"data": base64.b64encode(split.read_bytes()).decode()}
    platform.answers(version(split, folders=True), data, {"data": ""})
    with task_sets.local(["mine@2", str(EXAMPLES / "csv-to-json")]) as found:
        names = dict(zip((place.shown for place in found.values()), map(read, found), strict=True))
        assert list(names)[:2] == [str(EXAMPLES / "csv-to-json"), "mine@2/train/count-words"]
        assert names["mine@2/train/csv-to-json"] == names[str(EXAMPLES / "csv-to-json")]
    assert not [path for path in found if path.is_relative_to(tmp_path)], "gone with the context"
    platform.answers(version(split))
    with pytest.raises(FailedPrecondition, match="mine@2 holds no task folders"), task_sets.local(["mine@2"]):
        pass
    with pytest.raises(InvalidArgument, match="mine holds no task folder"), task_sets.local(["mine"]):
        pass


def test_verdicts_are_kept_by_split_unless_the_platform_failed(platform: ScriptedGateway) -> None:
    attack = random.Random(1).choice(ATTACKS)
    train, test = DatasetRef("mine", 2, "train"), DatasetRef("mine", 2, "test")
    solved = Checked(Path("a"), "org/a", "program")
    found = [
        (train, solved),
        (train, Checked(Path("b"), "b", "files", "the solution does not pass\0")),
        (train, Checked(Path("c"), "c", "process", wins=[Win(attack, 1.0)])),
        (train, solved),  # it was named twice
        (test, Checked(Path("d"), "d", "files", "the sandbox failed", unknown=True)),
        (None, Checked(Path("e@1/e"), "e", "files", "wrong")),
    ]
    platform.answers({})
    assert task_sets.report(found) == [train]
    (sent,) = platform.received
    assert sent.path.endswith("/datasets/mine/versions/2/splits/train/unsound")
    assert sent.body["runs"] == {"problems": 3, "strict": 1, "shared": 1}
    assert sent.body["reasons"]["c"] == f"won without being solved: {attack.name}"
    assert (set(sent.body["reasons"]), "\0" in sent.body["reasons"]["b"]) == ({"b", "c"}, False)
