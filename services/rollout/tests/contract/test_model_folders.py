"""What every `ModelFolders` does, and what the one on disk does besides."""

import asyncio
import hashlib
import json
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ratchet_kit import policy_id
from ratchet_kit.allowed_sources import Places
from ratchet_kit.errors import DataLoss, InvalidArgument, ResourceExhausted
from ratchet_kit.storage import Folder
from ratchet_testing.disks import full_disk
from rollout_service.adapters.changes import read
from rollout_service.adapters.folders import DiskModelFolders
from rollout_service.adapters.receiving import Receiver
from rollout_service.domain.ports import ModelFolder, ModelFolders
from rollout_service.domain.weights import Chunk, TensorHeader, WeightStream

from ..memory import MemoryFolders, content_id

BYTES = bytes(range(24))
OTHER = bytes(reversed(range(24)))
ZEROS = bytes(4000)
ONE = bytes(2000) + b"\x80\x3f" + bytes(1998)


@dataclass
class Case:
    folders: ModelFolders
    source: str


def tensor(name: str, data: bytes) -> list[TensorHeader | Chunk]:
    header = TensorHeader(name, "F32", (len(data) // 4,), hashlib.sha256(data).hexdigest())
    return [header, Chunk(data[:5]), Chunk(data[5:])]


def changed(name: str, before: bytes, after: bytes) -> list[TensorHeader | Chunk]:
    """As rollout.proto says it."""
    old, new = np.frombuffer(before, "<u4"), np.frombuffer(after, "<u4")
    places = np.flatnonzero(old != new)
    distances = b"".join(b"\xff" * (gap // 255) + bytes([gap % 255]) for gap in np.diff(places, prepend=-1) - 1)
    encoded = zlib.compress(len(places).to_bytes(8, "little") + distances + (new - old)[old != new].tobytes())
    return [TensorHeader(name, "F32", (len(new),), hashlib.sha256(after).hexdigest(), True), Chunk(encoded)]


def on_disk(work: Path, **options: int) -> DiskModelFolders:
    return DiskModelFolders(work, Places([str(work.parent), "memory://", "s3://ratchet"]), **options)


async def stream(*parts: TensorHeader | Chunk) -> WeightStream:
    for part in parts:
        yield part


def content(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


def write_model(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    header = json.dumps({"w": {"dtype": "F32", "shape": [6], "data_offsets": [0, 24]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + BYTES)
    return folder


@pytest.fixture(params=["memory", "disk"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    if request.param == "memory":
        return Case(MemoryFolders({"/base": content_id(b"base")}), "/base")
    return Case(DiskModelFolders(tmp_path / "work", Places([str(tmp_path)])), str(write_model(tmp_path / "base")))


class TestEvery:
    async def test_fetches_a_model_with_its_id(self, case: Case) -> None:
        await case.folders.check(case.source)
        model = await case.folders.fetch(case.source)
        assert model.policy_id.startswith("sha256:")
        assert model.settings_id.startswith("sha256:")

    async def test_refuses_a_source_that_is_no_model(self, case: Case) -> None:
        for ask in (case.folders.check, case.folders.fetch):
            with pytest.raises(InvalidArgument) as refused:
                await ask("/there/is/nothing")
            assert refused.value.violations[0].field == "source_uri"

    async def test_receives_weights_under_an_id_of_their_own(self, case: Case) -> None:
        base = await case.folders.fetch(case.source)
        one = await case.folders.receive(base, stream(*tensor("w", BYTES)))
        same = await case.folders.receive(base, stream(*tensor("w", BYTES)))
        other = await case.folders.receive(base, stream(*tensor("w", OTHER)))
        assert one.policy_id == same.policy_id != other.policy_id
        assert len({one.path, same.path, other.path}) == 3
        assert other.settings_id == base.settings_id, "weights come without a tokenizer"

    async def test_refuses_no_weights_at_all(self, case: Case) -> None:
        base = await case.folders.fetch(case.source)
        with pytest.raises(InvalidArgument):
            await case.folders.receive(base, stream())

    async def test_receives_no_change_at_all(self, case: Case) -> None:
        base = await case.folders.fetch(case.source)
        assert (await case.folders.receive(base, stream(), changes=True)).settings_id == base.settings_id

    async def test_releases_what_it_received_and_nothing_else(self, case: Case) -> None:
        base = await case.folders.fetch(case.source)
        received = await case.folders.receive(base, stream(*tensor("w", OTHER)))
        await case.folders.release(received)
        await case.folders.release(received)
        await case.folders.release(base)
        assert (await case.folders.fetch(case.source)) == base

    async def test_retains_what_is_named(self, case: Case) -> None:
        base = await case.folders.fetch(case.source)
        one = await case.folders.receive(base, stream(*tensor("w", BYTES)))
        other = await case.folders.receive(base, stream(*tensor("w", OTHER)))
        await case.folders.retain([str(other.path)])
        assert await case.folders.fetch(str(other.path)) == other
        with pytest.raises(InvalidArgument):
            await case.folders.fetch(str(one.path))


class TestDisk:
    @pytest.fixture
    def work(self, tmp_path: Path) -> Path:
        return tmp_path / "work"

    @pytest.fixture
    async def base(self, tmp_path: Path, work: Path) -> ModelFolder:
        return await on_disk(work).fetch(str(write_model(tmp_path / "base")))

    async def test_what_it_received_is_a_whole_model_with_the_announced_id(self, work: Path, base: ModelFolder) -> None:
        parts = [*tensor("b", OTHER), *tensor("a", BYTES)]
        received = await on_disk(work).receive(base, stream(*parts))
        assert received.policy_id == policy_id.compute([("a", "F32", [6], BYTES), ("b", "F32", [6], OTHER)])
        assert sorted(file.name for file in received.path.iterdir()) == [
            "config.json",
            "model-00000.safetensors",
            "tokenizer.json",
        ]
        assert base.policy_id == policy_id.compute([("w", "F32", [6], BYTES)])

    async def test_writes_shards_that_hold_the_same(self, work: Path, base: ModelFolder) -> None:
        parts = [part for name in "abcde" for part in tensor(name, BYTES)]
        whole = await on_disk(work).receive(base, stream(*parts))
        sharded = await on_disk(work, shard_bytes=40).receive(base, stream(*parts))
        assert len(list(sharded.path.glob("*.safetensors"))) == 3
        assert sharded.policy_id == whole.policy_id

    async def test_names_of_any_length_leave_the_weights_as_they_came(self, work: Path, base: ModelFolder) -> None:
        """What is on the disk is not read again when it is received: here it is."""
        names = [f"{number}{character * 2500}" for number in range(40) for character in "\u00e9w"]
        received = await on_disk(work).receive(base, stream(*(part for name in names for part in tensor(name, OTHER))))
        assert len(list(received.path.glob("*.safetensors"))) > 1
        assert policy_id.of_folder(received.path) == received.policy_id
        with pytest.raises(InvalidArgument, match="characters is too long"):
            await on_disk(work).receive(base, stream(*tensor("w" * 70_000, OTHER)))

    async def test_what_changed_makes_the_whole_of_the_base(self, work: Path, base: ModelFolder) -> None:
        folders = on_disk(work, shard_bytes=40)
        first = [*tensor("w", BYTES), *tensor("x", OTHER), *tensor("y", ZEROS), *tensor("z", BYTES)]
        start = await folders.receive(base, stream(*first))
        parts = [*changed("y", ZEROS, ONE), *tensor("x", BYTES)]
        received = await folders.receive(start, stream(*parts), changes=True)
        assert received.policy_id == policy_id.compute(
            [
                (name, "F32", [len(data) // 4], data)
                for name, data in zip("wxyz", (BYTES, BYTES, ONE, BYTES), strict=True)
            ]
        )
        assert received.changes is not None
        assert received.changes.base == start.policy_id
        y, x = read(received.path, received.changes.digest)
        assert (y.name, list(y.places), bytes(y.values)) == ("y", [500], ONE[2000:2004])
        assert (x.name, x.places, bytes(x.values)) == ("x", None, BYTES)
        same = await folders.receive(received, stream(), changes=True)
        assert (same.policy_id, same.size_bytes) == (received.policy_id, received.size_bytes)

    async def test_a_base_that_is_one_file_of_another_stays_as_it_is(self, work: Path, base: ModelFolder) -> None:
        received = await on_disk(work).receive(base, stream(*tensor("v", OTHER)), changes=True)
        assert received.changes is None, "an engine may have no such tensor"
        assert received.policy_id == policy_id.compute([("w", "F32", [6], BYTES), ("v", "F32", [6], OTHER)])
        assert base.policy_id == policy_id.of_folder(base.path)

    @pytest.mark.parametrize(
        ("parts", "error", "words"),
        [
            ([TensorHeader("none", "F32", (6,), "", True), Chunk(b"")], InvalidArgument, "could have changed"),
            ([TensorHeader("w", "F32", (7,), "", True)], InvalidArgument, "must come whole"),
            ([TensorHeader("w", "BF16", (6,), "", True)], InvalidArgument, "must come whole"),
            ([TensorHeader("w", "F32", (6,), "", True), Chunk(b"?")], DataLoss, "changes"),
            ([TensorHeader("w", "F32", (6,), "", True), Chunk(bytes(25))], DataLoss, "more than its 24 bytes"),
            ([TensorHeader("w", "F32", (6,), "0" * 64, True), Chunk(zlib.compress(bytes(8)))], DataLoss, "sha256"),
            ([TensorHeader("w", "F32", (6,), "0" * 64, True)], DataLoss, "changes"),
        ],
    )
    async def test_leaves_nothing_of_changes_that_are_none(
        self, work: Path, base: ModelFolder, parts: list[TensorHeader | Chunk], error: type[Exception], words: str
    ) -> None:
        with pytest.raises(error, match=words):
            await on_disk(work).receive(base, stream(*parts), changes=True)
        assert content(work) == []

    async def test_changes_need_a_base(self, work: Path, base: ModelFolder) -> None:
        with pytest.raises(InvalidArgument, match="could have changed"):
            await on_disk(work).receive(base, stream(*changed("w", BYTES, BYTES)))

    @pytest.mark.parametrize(
        ("parts", "error", "words"),
        [
            (tensor("w", BYTES)[:2], DataLoss, "5 of its 24 bytes"),
            ([*tensor("w", BYTES), Chunk(b"x")], DataLoss, "more than its 24 bytes"),
            ([tensor("w", BYTES)[0], Chunk(OTHER)], DataLoss, "sha256"),
            ([Chunk(b"x")], InvalidArgument, "before the first tensor"),
            (tensor("w", BYTES) * 2, InvalidArgument, "twice"),
            ([TensorHeader("w", "F31", (1,), "")], InvalidArgument, "dtype"),
            (tensor("__metadata__", BYTES), InvalidArgument, "__metadata__"),
        ],
    )
    async def test_leaves_nothing_of_damaged_weights(
        self,
        work: Path,
        base: ModelFolder,
        parts: list[TensorHeader | Chunk],
        error: type[Exception],
        words: str,
    ) -> None:
        with pytest.raises(error, match=words):
            await on_disk(work).receive(base, stream(*parts))
        assert content(work) == []

    async def test_a_damaged_model_is_data_loss(self, work: Path, tmp_path: Path) -> None:
        folder = write_model(tmp_path / "cut")
        weights = folder / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])
        with pytest.raises(DataLoss, match="cut short"):
            await on_disk(work).fetch(str(folder))

    async def test_weights_that_are_no_numbers_are_refused_by_name(self, work: Path, tmp_path: Path) -> None:
        folder = write_model(tmp_path / "diverged")
        weights = folder / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-4] + b"\x00\x00\xc0\x7f")
        with pytest.raises(DataLoss, match=r"tensor w in model\.safetensors has a value that is NaN or infinite"):
            await on_disk(work).fetch(str(folder))

    @pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
    async def test_says_what_a_folder_lacks(self, work: Path, tmp_path: Path, missing: str) -> None:
        folder = write_model(tmp_path / "partial")
        (folder / missing).unlink()
        with pytest.raises(InvalidArgument, match=missing.removeprefix("model")):
            await on_disk(work).check(str(folder))

    async def test_a_reward_model_is_not_served(self, work: Path, tmp_path: Path) -> None:
        folder = write_model(tmp_path / "judge")
        config = {"architectures": ["LlamaForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
        (folder / "config.json").write_text(json.dumps(config))
        for ask in (on_disk(work).check, on_disk(work).fetch):
            with pytest.raises(InvalidArgument, match=r"a reward model, or another classifier, .* it cannot be served"):
                await ask(str(folder))

    async def test_refuses_an_unknown_storage(self, work: Path) -> None:
        with pytest.raises(InvalidArgument, match="nowhere") as refused:
            await on_disk(work).check("nowhere://bucket/model")
        assert refused.value.violations[0].field == "source_uri"

    async def test_refuses_what_is_elsewhere(self, work: Path, tmp_path: Path) -> None:
        (tmp_path / "own").mkdir()
        outside = write_model(tmp_path / "outside")
        (tmp_path / "own" / "link").symlink_to(outside)
        (tmp_path / "own" / "model").mkdir()
        for file in outside.iterdir():
            (tmp_path / "own" / "model" / file.name).symlink_to(file)
        folders = DiskModelFolders(work, Places([str(tmp_path / "own")]))
        for source in (outside, tmp_path / "own" / "link", tmp_path / "own" / "model", "http://169.254.169.254/m"):
            for look in (folders.check, folders.fetch):
                with pytest.raises(InvalidArgument) as refused:
                    await look(str(source))
                assert refused.value.violations[0].field == "source_uri"
        assert "work" not in content(tmp_path)

    async def test_the_weights_of_a_killed_service_are_its_own(self, work: Path, base: ModelFolder) -> None:
        received = await on_disk(work).receive(base, stream(*tensor("w", BYTES)))
        again = await DiskModelFolders(work, Places([])).fetch(str(received.path))
        assert again.policy_id == received.policy_id

    async def test_a_local_url_is_used_in_place(self, work: Path, base: ModelFolder) -> None:
        fetched = await on_disk(work).fetch(f"file://{base.path}")
        assert fetched == base

    @pytest.mark.integration
    async def test_fetches_from_an_object_store(self, work: Path, base: ModelFolder, s3_url: str) -> None:
        Folder(s3_url).upload(base.path)
        folders = on_disk(work)
        await folders.check(s3_url)
        fetched = await folders.fetch(s3_url)
        assert (fetched.policy_id, fetched.size_bytes) == (base.policy_id, base.size_bytes)
        await folders.release(fetched)
        assert content(work) == []

    async def test_nothing_at_a_url(self, work: Path, tmp_path: Path) -> None:
        with pytest.raises(InvalidArgument, match="no folder"):
            await on_disk(work).fetch(f"memory://{tmp_path}/none")
        assert content(work) == []


async def test_weights_that_the_disk_has_no_room_for_are_refused_before_the_first(tmp_path: Path) -> None:
    folders = on_disk(tmp_path / "work")
    base = await folders.fetch(str(write_model(tmp_path / "base")))
    huge = ModelFolder(base.path, base.policy_id, size_bytes=1 << 60)
    with pytest.raises(ResourceExhausted, match=r"\d+ are missing"):
        await folders.receive(huge, stream(*tensor("w", BYTES)))
    assert not (tmp_path / "work").exists()


async def test_a_caller_that_leaves_while_it_writes_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that takes what came goes on after it."""
    folders = on_disk(tmp_path / "work")
    base = await folders.fetch(str(write_model(tmp_path / "base")))
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    take = Receiver.take

    def slowly(receiver: Receiver, parts: Sequence[TensorHeader | Chunk]) -> None:
        begun.set()
        go_on.wait()
        try:
            take(receiver, parts)
        finally:
            ended.set()

    monkeypatch.setattr(Receiver, "take", slowly)
    receiving = asyncio.create_task(folders.receive(base, stream(*tensor("w", OTHER), *tensor("v", OTHER))))
    await asyncio.to_thread(begun.wait)
    receiving.cancel()
    await asyncio.wait([receiving])
    go_on.set()
    await asyncio.to_thread(ended.wait)
    assert content(tmp_path / "work") == []


async def test_the_base_may_go_while_weights_come(tmp_path: Path) -> None:
    """Another sender was faster."""
    folders = on_disk(tmp_path / "work")
    first = await folders.fetch(str(write_model(tmp_path / "base")))
    base = await folders.receive(first, stream(*tensor("w", OTHER)))

    async def weights() -> WeightStream:
        yield tensor("w", BYTES)[0]
        await folders.release(base)
        yield Chunk(BYTES)

    assert policy_id.of_folder((made := await folders.receive(base, weights(), changes=True)).path) == made.policy_id
    assert (made.path / "config.json").read_bytes() == (first.path / "config.json").read_bytes()


async def test_others_are_served_while_weights_are_hashed(tmp_path: Path) -> None:
    folders = on_disk(tmp_path / "work")
    base = await folders.fetch(str(write_model(tmp_path / "base")))
    turns = 0
    """Of the event loop, that others had."""
    before_each: list[int] = []
    size = 1000

    async def weights() -> WeightStream:
        yield TensorHeader("w", "F32", (size,), hashlib.sha256(bytes(4 * size)).hexdigest())
        for _ in range(size):
            before_each.append(turns)
            yield Chunk(bytes(4))

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(others())
    await folders.receive(base, weights())
    beside.cancel()
    assert len(set(before_each)) > 10


async def test_a_full_disk_is_worth_another_try(tmp_path: Path) -> None:
    folders = on_disk(tmp_path / "work")
    base = await folders.fetch(str(write_model(tmp_path / "base")))
    with full_disk(16), pytest.raises(ResourceExhausted, match="free some"):
        await folders.receive(base, stream(*tensor("w", OTHER)))
    assert content(tmp_path / "work") == []
    assert (await folders.receive(base, stream(*tensor("w", OTHER)))).policy_id != base.policy_id
