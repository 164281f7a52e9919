"""What every VersionStore promises."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ratchet_kit.errors import Aborted, AlreadyExists, FailedPrecondition, Failure, NotFound
from ratchet_kit.names import AliasRef, BareModel, Location, VersionRef
from ratchet_kit.work import Hold
from registry_service.domain.model import AliasChange
from registry_service.domain.ports import Stores, VersionFilter
from registry_service.domain.version import Lineage, State, Version, VersionSpec

from ..conftest import NOW, starter
from .values import LEASE, add_ready, add_version, artifact, gate, request, spec

LATER = NOW + timedelta(hours=1)


async def test_versions_are_numbered_from_one_and_make_their_model(stores: Stores) -> None:
    first, second = await add_version(stores, "req_1"), await add_version(stores, "req_2")
    assert first == Version(starter(1), spec(), NOW)
    assert await stores.versions.get(starter(2)) == second
    assert (await stores.models.get("starter")).latest_version == 2
    with pytest.raises(NotFound, match="no version 3"):
        await stores.versions.get(starter(3))
    with pytest.raises(NotFound, match=r"no model 'nobody'$"):
        await stores.versions.get(VersionRef("nobody", 1))
    with pytest.raises(NotFound, match=r"no model 'startr': did you mean starter\?"):
        await stores.versions.get(VersionRef("startr", 1))


async def test_versions_are_listed_newest_first(stores: Stores) -> None:
    for id in ("a", "b", "c"):
        await add_version(stores, id)
    assert [version.ref.number for version in await stores.versions.page("starter", 2, None)] == [3, 2]
    assert [version.ref.number for version in await stores.versions.page("starter", 2, ["starter", 2])] == [1]
    with pytest.raises(NotFound):
        await stores.versions.page("nobody", 2, None)


async def test_those_of_all_models_are_listed_by_state_and_time(stores: Stores) -> None:
    for id, model in (("a", "starter"), ("b", "starter"), ("c", "other")):
        await add_version(stores, id, model)
    for ref in (starter(2), VersionRef("other", 1)):
        await stores.versions.change(
            ref, lambda one: replace(one, state=State.FAILED, failure=Failure("INTERNAL", "no"))
        )

    async def listed(after: list[Any] | None = None, **only: Any) -> list[str]:
        return [str(one.ref) for one in await stores.versions.page(None, 9, after, VersionFilter(**only))]

    assert await listed() == ["other@1", "starter@2", "starter@1"]
    assert await listed(["starter", 2]) == ["starter@1"]
    assert await listed(state=State.FAILED) == ["other@1", "starter@2"]
    assert await listed(["other", 1], state=State.FAILED) == ["starter@2"]
    assert await listed(state=State.FAILED, after_time=LATER) == []
    assert [one.failed_versions for one in await stores.models.page(9, None)] == [1, 1]
    assert (await stores.models.get("starter")).failed_versions == 1


@pytest.mark.parametrize("base", [None, BareModel("m"), AliasRef("m", "a"), VersionRef("m", 7), Location("s3://b/m")])
async def test_any_base_is_kept(stores: Stores, base: object) -> None:
    made = await stores.versions.create(VersionSpec("starter", "/m", Lineage(base=base)), NOW, request())  # type: ignore[arg-type]
    assert (await stores.versions.get(made.ref)).spec.lineage.base == base


async def test_a_request_makes_one_version(stores: Stores) -> None:
    version = await add_version(stores)
    assert await add_version(stores) == version == await stores.versions.find(request())
    assert await stores.versions.find(request("req_2")) is None
    with pytest.raises(AlreadyExists, match="used before, for another version"):
        await stores.versions.find(request(fingerprint="another"))
    assert (await stores.models.get("starter")).latest_version == 1


async def test_versions_made_at_once_get_different_numbers(stores: Stores) -> None:
    made = await asyncio.gather(*(add_version(stores, f"req_{i}") for i in range(8)))
    assert sorted(version.ref.number for version in made) == list(range(1, 9))


async def test_one_request_sent_at_once_makes_one_version(stores: Stores) -> None:
    made = await asyncio.gather(*(add_version(stores) for _ in range(8)))
    assert {version.ref.number for version in made} == {1}
    assert (await stores.models.get("starter")).latest_version == 1, "no number is lost"


async def test_a_change_is_stored_and_a_refused_one_is_not(stores: Stores) -> None:
    await add_version(stores)
    claimed = await stores.versions.change(starter(1), lambda version: version.claim("a", NOW, LEASE))
    assert claimed.hold == Hold("a", NOW + LEASE, 1)
    assert await stores.versions.get(starter(1)) == claimed
    with pytest.raises(Aborted):
        await stores.versions.change(starter(1), lambda version: version.claim("b", NOW, LEASE))
    failure = Failure("NOT_FOUND", "there is no folder /source")
    failed = await stores.versions.change(starter(1), lambda version: version.fail("a", failure, LATER))
    assert (failed.state, failed.failure, failed.end_time) == (State.FAILED, failure, LATER)
    assert await stores.versions.get(starter(1)) == failed
    with pytest.raises(NotFound):
        await stores.versions.change(starter(2), lambda version: version)


async def test_a_completed_version_has_its_upload(stores: Stores) -> None:
    ready = await add_ready(stores)
    assert (ready.state, ready.artifact, ready.hold) == (State.READY, artifact("req_1"), Hold())
    assert await stores.versions.get(starter(1)) == ready
    assert not await stores.versions.abandon_upload("starter/req_1")
    assert await stores.versions.uploads_before(LATER) == []


async def test_an_abandoned_upload_never_becomes_a_version(stores: Stores) -> None:
    version = await add_version(stores)
    await stores.versions.begin_upload("slow", NOW)
    assert await stores.versions.uploads_before(NOW) == []
    assert await stores.versions.uploads_before(LATER) == ["slow"]
    assert await stores.versions.abandon_upload("slow")
    with pytest.raises(Aborted, match="given up"):
        await stores.versions.complete(
            version.ref, lambda version: version.claim("a", NOW, LEASE).complete("a", artifact("slow"), NOW), "slow"
        )
    assert await stores.versions.get(version.ref) == version
    await stores.versions.end_upload("slow")
    assert await stores.versions.uploads_before(LATER) == []


async def test_what_waits_is_pending_and_held_by_nobody_who_lives(stores: Stores) -> None:
    for id in ("held", "dead", "free"):
        await add_version(stores, id)
    await add_ready(stores, "ready")
    await stores.versions.change(starter(1), lambda version: version.claim("a", LATER, LEASE))
    await stores.versions.change(starter(2), lambda version: version.claim("a", NOW, LEASE))
    assert [version.ref.number for version in await stores.versions.waiting(LATER)] == [2, 3]


async def test_a_deleted_version_leaves_its_files_to_be_removed(stores: Stores) -> None:
    ready, pending = await add_ready(stores, "a"), await add_version(stores, "b")
    assert await stores.versions.delete(ready.ref, NOW) == ready
    assert await stores.versions.delete(pending.ref, NOW) == pending
    with pytest.raises(NotFound):
        await stores.versions.delete(ready.ref, NOW)
    assert await stores.versions.uploads_before(LATER) == ["starter/a"]
    assert await stores.versions.abandon_upload("starter/a")
    assert (await add_version(stores, "a")).ref.number == 3, "no number is given again, and the request is forgotten"


async def test_what_is_needed_is_not_deleted(stores: Stores) -> None:
    for id in ("a", "b", "c"):
        await add_ready(stores, id)
    await stores.models.move_alias(AliasChange("starter", "champion", 0, 1, "", "", NOW))
    with pytest.raises(FailedPrecondition, match="alias champion points at it"):
        await stores.versions.delete(starter(1), NOW)
    await stores.models.move_alias(AliasChange("starter", "champion", 1, 3, "", "", NOW))
    with pytest.raises(FailedPrecondition, match="it was champion"):
        await stores.versions.delete(starter(1), NOW)
    await stores.gates.create(gate("gate_1"), request())
    with pytest.raises(FailedPrecondition, match="gate gate_1 is about it"):
        await stores.versions.delete(starter(2), NOW)
    failure = Failure("NOT_FOUND", "there is no evaluation")
    await stores.gates.change("gate_1", lambda gate: gate.claim("a", NOW, LEASE).fail("a", failure, NOW))
    await stores.versions.delete(starter(2), NOW)


async def test_what_versions_learned_from_is_kept_once(stores: Stores) -> None:
    await stores.versions.add_problems("sha256:one", ["b", "a"])
    await stores.versions.add_problems("sha256:one", ["c"])
    await stores.versions.add_problems("sha256:two", ["a", "d"])
    known = stores.versions.fingerprints
    assert await known(["sha256:one", "sha256:two", "sha256:three"]) == {"a", "b", "d"}
    assert await known(["sha256:two"]) == {"a", "d"}
    assert await known([]) == await known(["sha256:three"]) == frozenset()
