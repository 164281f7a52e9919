"""Versions are made whole, once, or not at all."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet_kit.errors import AlreadyExists, InvalidArgument, NotFound, Unavailable
from registry_service.domain.catalog import Catalog
from registry_service.domain.models import Lineage, VersionDraft


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def make(catalog: Catalog, source: Path, request_id: str = "", labels: Mapping[str, str] | None = None) -> Any:
    return await catalog.create_version("starter", str(source), Lineage(step=5), labels or {}, request_id)


async def test_a_version_holds_its_own_copy(registry: Any, model_folder: Any) -> None:
    version = await make(registry.catalog, model_folder(), labels={"kind": "sft"})
    assert (version.name, version.lineage.step, version.labels) == ("starter@1", 5, {"kind": "sft"})
    assert Path(version.artifact.uri).is_relative_to(registry.root)
    assert await registry.catalog.get_version("starter", 1) == version


async def test_the_same_request_gives_the_same_version(registry: Any, model_folder: Any) -> None:
    source = model_folder()
    first = await make(registry.catalog, source, "req_1")
    assert await make(registry.catalog, source, "req_1") == first
    assert (await make(registry.catalog, source)).number == 2, "without a request id each call makes one"
    with pytest.raises(AlreadyExists, match="used before"):
        await make(registry.catalog, source, "req_1", {"other": "label"})


async def test_the_same_request_sent_at_once_makes_one_version(registry: Any, model_folder: Any) -> None:
    source = model_folder()
    made = await asyncio.gather(*(make(registry.catalog, source, "req_1") for _ in range(5)))
    assert {version.number for version in made} == {1}
    assert len(files_below(registry.root)) == 2, "the copies of the others are gone"


@pytest.mark.parametrize("name", ["", "Starter", "a/b", "../a", "a b", ".hidden", "x" * 64])
async def test_names_that_cannot_be_folders_are_refused(registry: Any, name: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await registry.catalog.create_model(name, "")
    assert refused.value.violations[0].field == "name"
    with pytest.raises(InvalidArgument) as refused:
        await registry.catalog.create_version(name, "/x", Lineage(), {}, "")
    assert refused.value.violations[0].field == "model"


async def test_a_failed_create_leaves_neither_model_nor_files(registry: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await make(registry.catalog, tmp_path / "nowhere")
    with pytest.raises(NotFound):
        await registry.catalog.get_model("starter")
    assert files_below(registry.root) == []
    assert await registry.store.uploads_before(registry.clock.advance(timedelta(days=1))) == []


async def test_files_of_a_create_that_was_killed_are_swept(
    registry: Any, model_folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    async def killed(*_: Any) -> None:
        raise Killed

    kept = await make(registry.catalog, model_folder())
    with monkeypatch.context() as patch:
        patch.setattr(registry.store, "add_version", killed)
        with pytest.raises(Killed):
            await make(registry.catalog, model_folder("second"))
    assert len(files_below(registry.root)) == 4
    assert await registry.catalog.sweep(timedelta(hours=1)) == 0, "it may still be under way"
    registry.clock.advance(timedelta(hours=2))
    assert await registry.catalog.sweep(timedelta(hours=1)) == 1
    assert all(path.is_relative_to(kept.artifact.uri) for path in files_below(registry.root))


async def test_an_answer_that_got_lost_does_not_cost_the_artifact(
    registry: Any, model_folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version was committed, but the store's answer never came: its files must stay."""
    commit = registry.store.add_version

    async def committed_then_lost(draft: VersionDraft, upload: str, request: Any) -> None:
        await commit(draft, upload, request)
        raise Unavailable("connection reset")

    source = model_folder()
    with monkeypatch.context() as patch:
        patch.setattr(registry.store, "add_version", committed_then_lost)
        with pytest.raises(Unavailable):
            await make(registry.catalog, source, "req_1")
    again = await make(registry.catalog, source, "req_1")
    assert again.number == 1
    assert len(files_below(Path(again.artifact.uri))) == 2


async def test_an_alias_that_is_not_there_is_named(registry: Any, model_folder: Any) -> None:
    await make(registry.catalog, model_folder())
    await registry.aliases.set("starter", "mine", 1, "", "")
    assert (await registry.catalog.get_version_by_alias("starter", "mine")).number == 1
    with pytest.raises(NotFound, match="no alias 'champion'; it has mine"):
        await registry.catalog.get_version_by_alias("starter", "champion")


async def test_lists_are_paged(registry: Any, model_folder: Any) -> None:
    source = model_folder()
    for _ in range(3):
        await make(registry.catalog, source)
    first = await registry.catalog.list_versions("starter", 2, "")
    second = await registry.catalog.list_versions("starter", 2, first.next_page_token)
    assert [version.number for version in [*first.items, *second.items]] == [3, 2, 1]
    assert second.next_page_token == ""
