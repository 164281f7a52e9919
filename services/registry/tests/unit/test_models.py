"""Models: create, list, delete."""

import pytest

from ratchet_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound

from ..conftest import ModelFolder, Registry, starter


async def test_a_model_is_made_once(registry: Registry) -> None:
    models = registry.service.models
    first = await models.create("starter", "the first", "req_1")
    assert await models.create("starter", "the first", "req_1") == first == await models.get("starter")
    with pytest.raises(AlreadyExists, match="model starter exists"):
        await models.create("starter", "the first", "req_2")
    with pytest.raises(AlreadyExists, match="used before"):
        await models.create("other", "", "req_1")


@pytest.mark.parametrize("name", ["", "Starter", "a/b", "../a", "a b", ".hidden", "x" * 64])
async def test_names_that_cannot_be_folders_are_refused(registry: Registry, name: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await registry.service.models.create(name, "", "")
    assert [violation.field for violation in refused.value.violations] == ["name"]


async def test_a_description_has_a_length(registry: Registry) -> None:
    with pytest.raises(InvalidArgument, match="description"):
        await registry.service.models.create("starter", "x" * 2001, "")


async def test_models_are_paged_by_name(registry: Registry) -> None:
    for name in ("b", "c", "a"):
        await registry.service.models.create(name, "", "")
    first = await registry.service.models.page(2, "")
    second = await registry.service.models.page(2, first.next_page_token)
    assert [model.name for model in [*first.items, *second.items]] == ["a", "b", "c"]


async def test_only_a_model_that_never_had_a_version_is_deleted(registry: Registry, model_folder: ModelFolder) -> None:
    await registry.make(model_folder())
    await registry.point("mine", 1)
    with pytest.raises(FailedPrecondition, match="given again"):
        await registry.service.models.delete("starter")
    await registry.make(model_folder("second", 2))
    await registry.point("mine", 2)
    await registry.service.versions.delete(starter(1))
    with pytest.raises(FailedPrecondition):
        await registry.service.models.delete("starter")
    with pytest.raises(NotFound):
        await registry.service.models.delete("nobody")
    await registry.service.models.create("empty", "", "req_1")
    await registry.service.models.delete("empty")
    with pytest.raises(NotFound):
        await registry.service.models.get("empty")
    await registry.service.models.create("empty", "again", "req_1")
