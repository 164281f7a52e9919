"""What every DatasetStore promises."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from ratchet_kit.errors import Aborted, AlreadyExists, FailedPrecondition, Failure, InvalidArgument, NotFound
from ratchet_kit.names import DatasetRef
from ratchet_kit.sql import Database
from registry_service.adapters.sql.datasets import SqlDatasetStore
from registry_service.adapters.sql.stores import sql_stores
from registry_service.domain.dataset import Card, Check, Content, Dataset, DatasetSpec, Part, Progress, State, Upload

from ..conftest import NOW
from .values import add_ready, gate, request

LATER, LEASE = NOW + timedelta(hours=1), timedelta(seconds=30)


@pytest.fixture
def store(database: Database) -> SqlDatasetStore:
    return SqlDatasetStore(database)


def spec(name: str = "mine", letter: str = "a", *splits: str) -> DatasetSpec:
    return DatasetSpec(name, Card("mine"), {split: Upload(3, letter * 64) for split in splits or ("train",)})


async def add(store: SqlDatasetStore, name: str = "mine", letter: str = "a") -> Dataset:
    return await store.create(spec(name, letter), "key_1", NOW, request(f"{name} {letter}"))


async def ready(store: SqlDatasetStore, name: str = "mine", letter: str = "a") -> Dataset:
    ref = (await add(store, name, letter)).ref
    await store.change(ref, lambda it: it.written("train", 0, 3).claim("w", NOW, LEASE))
    content = Content(3, letter * 64, 1, "sha256:d", ("1 problem without a reference",))
    return await store.change(ref, lambda it: it.complete("w", {"train": content}, LATER))


async def test_versions_are_numbered_and_keep_what_they_are(store: SqlDatasetStore) -> None:
    first, second = await ready(store), await ready(store, letter="b")
    assert (first.id, second.id) == ("mine@1", "mine@2")
    assert await store.get(first.ref) == first
    assert (first.actor, first.state, first.end_time) == ("key_1", State.READY, LATER)
    assert await store.get(DatasetRef("mine")) == second


async def test_how_far_an_examination_is_lasts_until_its_end(store: SqlDatasetStore) -> None:
    ref = (await add(store)).ref
    await store.change(ref, lambda it: it.written("train", 0, 3).claim("w", NOW, LEASE))
    progress = {"train": Progress(Check.ROWS, 1_000, 3_000)}
    await store.change(ref, lambda it: it.examined_to("w", progress))
    assert (await store.get(ref)).progress == progress
    with pytest.raises(Aborted):
        await store.change(ref, lambda it: it.examined_to("another", {}))
    failed = await store.change(ref, lambda it: it.fail("w", Failure("INVALID_ARGUMENT", "no"), LATER))
    assert failed.progress == (await store.get(ref)).progress == {}
    assert (await ready(store, letter="b")).progress == {}


async def test_versions_that_were_measured_for_a_gate_are_known(database: Database) -> None:
    stores = sql_stores(database)
    for id in ("one", "two"):
        await add_ready(stores, id)
    await stores.gates.create(gate("gate_1"), request())
    measured, other = await ready(stores.datasets), await ready(stores.datasets, "other")
    assert await stores.datasets.gated() == set()
    for user in ("run_1", "eval_1", "eval_2"):
        await stores.datasets.use(measured.ref, user, NOW)
    await stores.datasets.use(other.ref, "eval_3", NOW)
    assert await stores.datasets.gated() == {measured.ref}


async def test_the_newest_is_the_newest_that_is_ready(store: SqlDatasetStore) -> None:
    first = await ready(store)
    await add(store, letter="b")
    assert await store.get(DatasetRef("mine")) == first
    with pytest.raises(NotFound, match="data set other has no version that is ready; it has 1"):
        await add(store, "other")
        await store.get(DatasetRef("other"))


async def test_the_same_files_are_the_same_version_unless_it_failed(store: SqlDatasetStore) -> None:
    first = await add(store)
    assert await store.create(spec(), "key_2", LATER, request("another")) == first
    await store.change(first.ref, lambda it: it.written("train", 0, 3).claim("w", NOW, LEASE))
    await store.change(first.ref, lambda it: it.fail("w", Failure("DATA_LOSS", "bad"), LATER))
    assert (await store.create(spec(), "key_2", LATER, request("a third"))).number == 2
    assert (await store.get(first.ref)).failure == Failure("DATA_LOSS", "bad")


async def test_a_request_makes_one_data_set(store: SqlDatasetStore) -> None:
    first = await add(store)
    assert await store.find(request("mine a")) == first
    assert await store.find(request("another")) is None
    with pytest.raises(AlreadyExists, match="used before, for another data set"):
        await store.find(request("mine a", fingerprint="another"))


async def test_two_who_add_at_once_get_numbers_of_their_own(store: SqlDatasetStore) -> None:
    letters = ["a", "b", "a"]
    made = await asyncio.gather(
        *(store.create(spec("mine", it), "", NOW, request(f"req_{place}")) for place, it in enumerate(letters))
    )
    assert made[0].number == made[2].number
    assert {one.number for one in made} == {1, 2}


async def test_bytes_come_in_their_order_and_the_last_ones_end_the_upload(store: SqlDatasetStore) -> None:
    ref = (await store.create(spec("mine", "a", "train", "test"), "", NOW, request("r"))).ref
    await store.change(ref, lambda it: it.written("train", 0, 3))
    for offset, size, error in ((2, 1, FailedPrecondition), (0, 4, InvalidArgument), (0, 0, InvalidArgument)):
        with pytest.raises(error):
            await store.change(ref, lambda it, at=offset, of=size: it.written("test", at, of))
    with pytest.raises(NotFound, match="has no split 'dev'; it has train, test"):
        await store.change(ref, lambda it: it.written("dev", 0, 1))
    assert await store.waiting(NOW) == []
    assert [str(one) for one in await store.uploading_before(LATER)] == ["mine@1"]
    whole = await store.change(ref, lambda it: it.written("test", 0, 3))
    assert whole.state is State.EXAMINING
    assert await store.waiting(NOW) == [whole]
    with pytest.raises(FailedPrecondition, match="is examining: nothing more is written"):
        await store.change(ref, lambda it: it.written("test", 3, 1))


async def test_lists_are_by_name_the_newest_first(store: SqlDatasetStore) -> None:
    made = [await add(store), await add(store, letter="b"), await add(store, "other")]
    ids = ["mine@2", "mine@1", "other@1"]
    assert [one.id for one in await store.page(None, 10, None)] == ids
    assert [one.id for one in await store.page(None, 2, ["mine", 2])] == ids[1:]
    assert [one.id for one in await store.page("mine", 10, None)] == ids[:2]
    assert await store.page("mine", 10, ["mine", 1]) == []
    assert made[0] in await store.page(None, 10, None)
    with pytest.raises(NotFound, match="there is no data set 'loud'; there are mine, other"):
        await store.page("loud", 10, None)


async def test_a_version_that_was_used_stays_unless_it_is_forced(store: SqlDatasetStore) -> None:
    ref = (await ready(store)).ref
    for user in ("run_1", "eval_2", "run_1"):
        await store.use(ref, user, LATER)
    used = await store.get(ref)
    assert (used.uses, used.last_user) == (2, "eval_2")
    with pytest.raises(FailedPrecondition, match=r"mine@1 cannot be deleted: it was used 2 times \(eval_2 the last\)"):
        await store.delete(ref, force=False)
    assert await store.delete(ref, force=True) == (used, ["a" * 64])
    for missing in (store.get(ref), store.delete(ref, force=True), store.use(ref, "r", NOW)):
        with pytest.raises(NotFound):
            await missing
    assert (await add(store)).number == 2, "a number is not given again"


async def test_a_content_that_another_version_has_stays(store: SqlDatasetStore) -> None:
    first, other = await ready(store), await ready(store, "other")
    assert (await store.delete(first.ref, force=False))[1] == []
    assert (await store.delete(other.ref, force=False))[1] == ["a" * 64]


async def test_a_part_that_another_version_has_stays(store: SqlDatasetStore) -> None:
    made = []
    for name, own in (("mine", "b"), ("other", "c")):
        ref = (await add(store, name)).ref
        await store.change(ref, lambda it: it.written("train", 0, 3).claim("w", NOW, LEASE))
        content = Content(3, "a" * 64, 1, parts=(Part("d" * 64, 2), Part(own * 64, 1)))
        made.append(await store.change(ref, lambda it, of=content: it.complete("w", {"train": of}, LATER)))
    assert await store.get(made[0].ref) == made[0]
    deleted = list[str]()

    async def delete(sha256: str) -> None:
        deleted.append(sha256[0])

    await store.release([it * 64 for it in "abcd"], delete)
    await store.release([it * 64 for it in "bcd"], delete, made[0].ref)
    assert deleted == ["a", "b"]
    assert (await store.delete(made[0].ref, force=False))[1] == ["b" * 64]
    assert (await store.delete(made[1].ref, force=False))[1] == ["c" * 64, "d" * 64]


async def test_a_content_is_read_once_it_is_ready(store: SqlDatasetStore) -> None:
    dataset = await add(store)
    with pytest.raises(FailedPrecondition, match="mine@1 is uploading: it has no content yet"):
        dataset.content("train")
    failed = replace(dataset, state=State.FAILED, failure=Failure("DATA_LOSS", "bad"))
    with pytest.raises(FailedPrecondition, match="mine@1 has no content: bad"):
        failed.content("train")
