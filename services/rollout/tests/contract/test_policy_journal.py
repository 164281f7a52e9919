"""What every `PolicyJournal` does."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ratchet_kit import logs
from ratchet_kit.idempotency import Request
from ratchet_testing.disks import full_disk
from rollout_service.adapters.journal import FileJournal
from rollout_service.domain.policy import Dtype, EngineInfo, EngineOptions, Policy, PolicyId, PolicyName
from rollout_service.domain.ports import KeptPolicy, PolicyJournal

from ..memory import MemoryJournal

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def kept(name: str, weight_updates: int = 0) -> KeptPolicy:
    loading = Policy(
        PolicyName(name), "/model", Request.of("r1"), NOW, EngineOptions(Dtype.FLOAT32, kv_cache_bytes=1 << 26)
    )
    policy = loading.ready(PolicyId("sha256:" + "a" * 64), EngineInfo(Dtype.FLOAT32, 64), NOW)
    for _ in range(weight_updates):
        policy = policy.updated(PolicyId("sha256:" + "b" * 64))
    return KeptPolicy(policy, "/folder")


@pytest.fixture(params=["memory", "file"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> PolicyJournal:
    return MemoryJournal() if request.param == "memory" else FileJournal(tmp_path / "policies")


async def test_keeps_the_last_of_each_name(journal: PolicyJournal) -> None:
    assert await journal.kept() == []
    for one in (kept("b"), kept("a"), kept("a", weight_updates=2)):
        await journal.keep(one)
    assert await journal.kept() == [kept("a", weight_updates=2), kept("b")]


async def test_forgets(journal: PolicyJournal) -> None:
    await journal.keep(kept("a"))
    await journal.forget(PolicyName("a"))
    await journal.forget(PolicyName("never-kept"))
    assert await journal.kept() == []


async def test_the_file_journal_outlives_its_object_and_skips_what_it_cannot_read(tmp_path: Path) -> None:
    await FileJournal(tmp_path).keep(kept("a"))
    (tmp_path / "b.json").write_text("{")
    assert await FileJournal(tmp_path).kept() == [kept("a")]


async def test_a_full_disk_costs_what_was_kept_and_nothing_else(tmp_path: Path) -> None:
    logs.configure("rollout", "CRITICAL")  # as the service has them: a log that cannot be written raises nothing
    journal = FileJournal(tmp_path)
    await journal.keep(kept("a"))
    with full_disk():
        await journal.keep(kept("a", weight_updates=1))
    assert await journal.kept() == [], "the weights that it had are gone"
    await journal.keep(kept("a", weight_updates=1))
    assert await journal.kept() == [kept("a", weight_updates=1)]
