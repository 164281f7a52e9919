"""Files of data sets on their way to and from the platform."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_client import ApiError, Client, datasets
from ratchet_client.datasets import download, sha256, upload
from ratchet_testing.gateway import ScriptedGateway

DATA = b"0123456789"
AWAY = {"error": {"code": "UNAVAILABLE", "message": "the registry is away"}}
FULL = {"error": {"code": "RESOURCE_EXHAUSTED", "message": "no space is left"}}


@pytest.fixture
def client(gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(datasets, "CHUNK", 4)
    monkeypatch.setattr(datasets, "PAUSES_S", (0.0, 0.0))
    with Client(gateway.url, "rk_key") as client:
        yield client


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "train.jsonl").write_bytes(DATA)
    return tmp_path / "train.jsonl"


def version(state: str, received: int = 0) -> dict[str, object]:
    split = {"name": "train", "size_bytes": len(DATA), "received_bytes": received}
    return {"dataset": {"name": "mine", "number": 1, "state": f"STATE_{state}", "splits": [split]}}


def sent(gateway: ScriptedGateway) -> list[tuple[int, bytes]]:
    bodies = [one.body for one in gateway.received if one.path.endswith("/content") and one.body]
    return [(int(body.get("offset", 0)), base64.b64decode(body["data"])) for body in bodies]


def test_an_upload_sends_what_is_missing_and_says_how_far_it_is(
    client: Client, gateway: ScriptedGateway, file: Path
) -> None:
    gateway.answers(version("UPLOADING", 4), {"received_bytes": 8}, {"received_bytes": 10}, version("EXAMINING", 10))
    seen: list[tuple[int, int]] = []
    made = upload(client.datasets, "mine", {"train": file}, progress=lambda *done: seen.append(done))
    assert made.state == pb.Dataset.STATE_EXAMINING
    assert sent(gateway) == [(4, b"4567"), (8, b"89")]
    assert seen == [(4, 10), (8, 10), (10, 10)]
    assert gateway.received[0].body["splits"] == [{"name": "train", "size_bytes": "10", "sha256": sha256(file)}]


def test_a_data_set_that_is_there_is_not_sent_again(client: Client, gateway: ScriptedGateway, file: Path) -> None:
    gateway.answers(version("READY", 10), version("READY", 10))
    assert upload(client.datasets, "mine", {"train": file}).state == pb.Dataset.STATE_READY
    assert sent(gateway) == []


def test_a_platform_that_is_away_for_a_moment_is_asked_again(
    client: Client, gateway: ScriptedGateway, file: Path
) -> None:
    gateway.answers(version("UPLOADING", 8))
    gateway.answers(AWAY, AWAY, status=503)
    gateway.answers({"received_bytes": 10}, version("EXAMINING", 10))
    upload(client.datasets, "mine", {"train": file})
    assert sent(gateway) == [(8, b"89")] * 3
    gateway.answers(version("UPLOADING", 8))
    gateway.answers(FULL, status=429)
    with pytest.raises(ApiError, match="no space is left"):
        upload(client.datasets, "mine", {"train": file})


def test_a_download_is_whole_or_not_there(client: Client, gateway: ScriptedGateway, file: Path) -> None:
    split = pb.DatasetSplit(name="train", content_bytes=10, content_sha256=sha256(file))
    parts = [{"data": base64.b64encode(part).decode()} for part in (DATA[:4], DATA[4:], b"")]
    gateway.answers(*parts, *parts[1:])
    target = file.with_name("content")
    download(client.datasets, pb.Dataset(name="mine", number=1), split, target)
    assert target.read_bytes() == DATA
    target.unlink()
    with pytest.raises(ApiError, match="train of mine@1 is damaged"):
        download(client.datasets, pb.Dataset(name="mine", number=1), split, target)
    assert {path.name for path in file.parent.iterdir()} == {"train.jsonl"}
