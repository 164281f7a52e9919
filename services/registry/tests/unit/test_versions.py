"""Versions get their number at once, are found by it, and go when nothing needs them."""

import asyncio
from collections.abc import Mapping

import pytest

from ratchet_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.names import AliasRef
from registry_service.domain.gate import GateSpec
from registry_service.domain.version import Lineage, State, Version, VersionSpec

from ..conftest import ModelFolder, Registry, files_below, starter


def create(registry: Registry, request_id: str = "", labels: Mapping[str, str] | None = None):
    return registry.service.versions.create(VersionSpec("starter", "/m", labels=labels or {}), request_id)


async def test_a_version_is_returned_at_once_and_has_its_number(registry: Registry) -> None:
    version = await create(registry)
    assert (str(version.ref), version.state, version.artifact) == ("starter@1", State.PENDING, None)
    assert (await create(registry)).ref == starter(2)
    assert registry.queues.versions.ids == ["starter@1", "starter@2"]
    assert (await registry.service.models.get("starter")).latest_version == 2


async def test_the_same_request_gives_the_same_version_while_it_is_copied_and_after(
    registry: Registry, model_folder: ModelFolder
) -> None:
    source = model_folder()
    pending = await registry.service.versions.create(VersionSpec("starter", str(source)), "req_1")
    assert await registry.service.versions.create(VersionSpec("starter", str(source)), "req_1") == pending
    [ready] = await registry.settle(pending)
    assert await registry.service.versions.create(VersionSpec("starter", str(source)), "req_1") == ready
    with pytest.raises(AlreadyExists, match="used before, for another version"):
        await create(registry, "req_1")
    assert (await create(registry)).ref.number == 2, "without a request id each call makes one"


async def test_the_same_request_sent_at_once_makes_one_version(registry: Registry) -> None:
    made = await asyncio.gather(*(create(registry, "req_1") for _ in range(5)))
    assert {version.ref.number for version in made} == {1}


async def test_every_field_at_fault_is_named(registry: Registry) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await registry.service.versions.create(VersionSpec("Not A Name", ""), "")
    assert [violation.field for violation in refused.value.violations] == ["model", "source_uri"]


async def test_what_is_kept_about_a_version_has_a_length(registry: Registry) -> None:
    long = "x" * 1_000_000
    lineage = Lineage(run_id=long, data_digest=long, config_digest=long, code_version=long, system=long)
    for labels, wrong in (({"a": long}, ["labels"]), ({str(one): "" for one in range(101)}, ["labels"]), ({}, [])):
        with pytest.raises(InvalidArgument) as refused:
            await registry.service.versions.create(VersionSpec("starter", "/m", lineage, labels), "")
        named = [violation.field.removeprefix("lineage.") for violation in refused.value.violations]
        assert named == ["run_id", "data_digest", "config_digest", "code_version", "system", *wrong]


async def test_fingerprints_are_of_the_data_that_lineage_names(registry: Registry) -> None:
    versions = registry.service.versions
    with pytest.raises(InvalidArgument, match=r"lineage\.data_digest"):
        await versions.create(VersionSpec("starter", "/m"), "", ["a"])
    await versions.create(VersionSpec("starter", "/m", Lineage(data_digest="sha256:d")), "", ["a", "b"])
    assert await registry.stores.versions.fingerprints(["sha256:d"]) == {"a", "b"}


async def test_a_source_that_may_not_be_read_is_refused_at_once(registry: Registry) -> None:
    with pytest.raises(InvalidArgument, match="RATCHET_SOURCES") as refused:
        await registry.service.versions.create(VersionSpec("starter", "http://169.254.169.254/model"), "")
    assert [violation.field for violation in refused.value.violations] == ["source_uri"]


async def test_a_version_is_made_where_the_queue_is_away(registry: Registry) -> None:
    registry.queues.versions.is_away = True
    assert (await create(registry)).state is State.PENDING


async def test_a_version_is_watched_until_it_is_ready(registry: Registry, model_folder: ModelFolder) -> None:
    version = await registry.service.versions.create(VersionSpec("starter", str(model_folder())), "")
    async with registry.working():
        seen = [seen.state async for seen in registry.service.versions.watch(version.ref)]
    assert seen == [State.PENDING, State.READY]
    with pytest.raises(NotFound):
        await anext(aiter(registry.service.versions.watch(starter(9))))


async def test_an_alias_that_is_not_there_is_named(registry: Registry, model_folder: ModelFolder) -> None:
    version = await registry.make(model_folder())
    await registry.point("mine", 1)
    assert await registry.service.versions.get(AliasRef("starter", "mine")) == version
    with pytest.raises(NotFound, match="no alias 'champion'; it has mine"):
        await registry.service.versions.get(AliasRef("starter", "champion"))


async def test_versions_are_paged_newest_first(registry: Registry) -> None:
    for _ in range(3):
        await create(registry)
    first = await registry.service.versions.page("starter", 2, "")
    second = await registry.service.versions.page("starter", 2, first.next_page_token)
    assert [version.ref.number for version in [*first.items, *second.items]] == [3, 2, 1]
    assert second.next_page_token == ""


async def test_a_deleted_version_takes_its_files_along_and_its_number_is_not_given_again(
    registry: Registry, model_folder: ModelFolder
) -> None:
    version = await registry.make(model_folder(), "req_1")
    await registry.service.versions.delete(version.ref)
    with pytest.raises(NotFound):
        await registry.service.versions.get(version.ref)
    assert files_below(registry.root) == []
    assert (await create(registry)).ref.number == 2


async def test_a_version_that_something_needs_is_not_deleted(registry: Registry, model_folder: ModelFolder) -> None:
    made: list[Version] = [await registry.make(model_folder(f"m{seed}", seed)) for seed in (1, 2, 3)]
    versions = registry.service.versions
    await registry.point("champion", 1)
    with pytest.raises(FailedPrecondition, match="starter@1 cannot be deleted: alias champion points at it"):
        await versions.delete(starter(1))
    for number, version in enumerate(made, 1):
        registry.evaluations.measure(f"eval_{number}", version)
    gate = await registry.service.gates.create(GateSpec(starter(2), "eval_2", "eval_1"), "")
    with pytest.raises(FailedPrecondition, match=f"starter@2 cannot be deleted: gate {gate.id} is about it"):
        await versions.delete(starter(2))
    async with registry.working():
        assert [seen async for seen in registry.service.gates.watch(gate.id)][-1].state.is_final
    await registry.point("champion", 2, gate_id=gate.id)
    with pytest.raises(FailedPrecondition, match="starter@1 cannot be deleted: it was champion"):
        await versions.delete(starter(1))
    await versions.delete(starter(3))
    assert len(files_below(registry.root)) == 4
