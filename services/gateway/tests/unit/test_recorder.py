import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from prometheus_client import REGISTRY

from gateway_service.domain.traffic import recorder as recorder_module
from gateway_service.domain.traffic.material import Material, material_of
from gateway_service.domain.traffic.record import CompletionRecord
from gateway_service.domain.traffic.recorder import Recorder
from gateway_service.domain.traffic.redaction import Redaction
from ratchet_kit.errors import InvalidArgument, Unavailable
from ratchet_policies import TextPrompt
from ratchet_problems import Message

from ..memory import MemoryCompletionLog
from ..world import World

REDACTION = Redaction([lambda text: text.replace("ann", "<name>")])


class LogThatIsAway(MemoryCompletionLog):
    away = True

    async def append(self, records: Sequence[CompletionRecord]) -> None:
        if self.away:
            raise Unavailable("the database cannot be reached")
        await super().append(records)


async def test_keeps_what_it_cannot_store(world: World) -> None:
    record = await one_record(world)
    log = LogThatIsAway()
    recorder = Recorder(log, REDACTION)
    recorder.record(record)
    with pytest.raises(Unavailable):
        await recorder.flush()
    log.away = False
    await recorder.flush()
    assert set(log.records) == {record.id}


class PickyLog(MemoryCompletionLog):
    """Refuses the poison, and the batch that it is in."""

    def __init__(self, fault: Exception) -> None:
        super().__init__()
        self.fault = fault

    async def append(self, records: Sequence[CompletionRecord]) -> None:
        if any("poison" in record.error for record in records):
            raise self.fault
        await super().append(records)


async def one_record(world: World) -> CompletionRecord:
    await world.ask()
    (record,) = await world.records()
    return record


def recorder_of(log: MemoryCompletionLog, world: World) -> Recorder:
    return Recorder(log, REDACTION, flush_every=timedelta(milliseconds=5))


@pytest.mark.parametrize("fault", [InvalidArgument("value too long"), ValueError("the driver cannot send it")])
async def test_a_record_that_cannot_be_held_is_set_aside(world: World, fault: Exception) -> None:
    record = await one_record(world)
    log = PickyLog(fault)
    recorder = recorder_of(log, world)
    for n in range(5):
        recorder.record(replace(record, id=f"cmpl_{n}", error="poison" if n == 2 else ""))
    await recorder.flush()
    assert sorted(log.records) == ["cmpl_0", "cmpl_1", "cmpl_3", "cmpl_4"]


async def test_what_is_wrong_with_the_database_is_no_records_fault(world: World) -> None:
    record = await one_record(world)
    log = PickyLog(LookupError("there is no such table"))
    recorder = recorder_of(log, world)
    recorder.record(replace(record, error="poison"))
    with pytest.raises(LookupError):
        await recorder.flush()
    log.fault = InvalidArgument("too long")
    recorder.record(replace(record, id="cmpl_2"))
    await recorder.flush()
    assert sorted(log.records) == ["cmpl_2"]


async def test_a_full_buffer_keeps_the_newest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "MAX_BUFFERED", 4)
    record = await one_record(world)

    class Slow(LogThatIsAway):
        async def append(self, records: Sequence[CompletionRecord]) -> None:
            for n in (4, 5):  # come while the database does not answer
                recorder.record(replace(record, id=f"cmpl_{n}"))
            self.append = super().append  # type: ignore[method-assign]
            raise Unavailable("the database cannot be reached")

    log = Slow()
    log.away = False
    recorder = recorder_of(log, world)
    for n in range(4):
        recorder.record(replace(record, id=f"cmpl_{n}"))
    with pytest.raises(Unavailable):
        await recorder.flush()
    await recorder.flush()
    assert sorted(log.records) == ["cmpl_2", "cmpl_3", "cmpl_4", "cmpl_5"]


@pytest.mark.parametrize("fault", [Unavailable("away"), LookupError("there is no such table")])
async def test_the_loop_survives_a_database_that_is_away_or_wrong(world: World, fault: Exception) -> None:
    record = await one_record(world)
    log = PickyLog(fault)
    recorder = recorder_of(log, world)
    stop = asyncio.Event()
    loop = asyncio.create_task(recorder.run(stop))
    recorder.record(replace(record, error="poison"))
    await asyncio.sleep(0.05)
    log.fault = InvalidArgument("too long")
    recorder.record(replace(record, id="cmpl_2"))
    await asyncio.sleep(0.05)
    stop.set()
    await loop
    assert sorted(log.records) == ["cmpl_2"]


async def test_a_gateway_that_stops_stores_the_rest(world: World) -> None:
    completion = await world.ask()
    assert not world.completions.records
    await world.stop()
    assert set(world.completions.records) == {completion.id}


def material(text: str = "I am ann") -> Material:
    made = material_of(TextPrompt(text), [Message("assistant", "hi ann")])
    assert made is not None
    return made


async def test_what_is_kept_is_redacted_before_it_is_stored(world: World) -> None:
    record = await one_record(world)
    log = LogThatIsAway()
    recorder = recorder_of(log, world)
    recorder.record(replace(record, id="cmpl_1", material=material()))
    with pytest.raises(Unavailable):
        await recorder.flush()
    log.away = False
    await recorder.flush()
    kept = log.exchanges["cmpl_1"].material
    assert (kept.prompt, kept.answers[0].content) == (TextPrompt("I am <name>"), "hi <name>")


async def test_a_redaction_that_fails_keeps_the_record_alone(world: World) -> None:
    def fails(text: str) -> str:
        if "bob" in text:
            raise ValueError(text)
        return text

    record = await one_record(world)
    log = MemoryCompletionLog()
    recorder = Recorder(log, Redaction([fails]))
    for n, text in enumerate(("I am ann", "I am bob")):
        recorder.record(replace(record, id=f"cmpl_{n}", material=material(text)))
    before = count_of("redaction")
    await recorder.flush()
    assert (sorted(log.records), sorted(log.exchanges)) == (["cmpl_0", "cmpl_1"], ["cmpl_0"])
    assert count_of("redaction") == before + 1


async def test_texts_that_have_no_room_are_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "MAX_BUFFERED_CHARACTERS", 100)
    monkeypatch.setattr(recorder_module, "MAX_BUFFERED", 6)
    record = await one_record(world)
    log = LogThatIsAway()
    recorder = recorder_of(log, world)
    before = count_of("no_room")
    for n in range(8):
        recorder.record(replace(record, id=f"cmpl_{n}", material=material()))
    assert count_of("no_room") == before + 3 + 2  # 4 to 6 come when there is no room; 0 and 1 are dropped
    log.away = False
    await recorder.flush()
    assert sorted(log.records) == [f"cmpl_{n}" for n in range(2, 8)]
    assert sorted(log.exchanges) == ["cmpl_2", "cmpl_3", "cmpl_7"]
    recorder.record(replace(record, id="cmpl_9", material=material()))  # there is room again
    await recorder.flush()
    assert "cmpl_9" in log.exchanges


def count_of(reason: str) -> float:
    return REGISTRY.get_sample_value("ratchet_gateway_traffic_left_out_total", {"reason": reason}) or 0.0
