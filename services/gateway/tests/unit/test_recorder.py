from collections.abc import Sequence
from datetime import timedelta

import pytest

from gateway_service.adapters.memory import MemoryCompletionLog
from gateway_service.domain.traffic.record import CompletionRecord
from gateway_service.domain.traffic.recorder import Recorder
from ratchet_kit.errors import Unavailable

from ..world import World


class LogThatIsAway(MemoryCompletionLog):
    away = True

    async def append(self, records: Sequence[CompletionRecord]) -> None:
        if self.away:
            raise Unavailable("the database cannot be reached")
        await super().append(records)


async def test_keeps_what_it_cannot_store(world: World) -> None:
    await world.ask()
    (record,) = await world.records()
    log = LogThatIsAway()
    recorder = Recorder(log, world.clock, timedelta(days=1), timedelta(days=30))
    recorder.record(record)
    with pytest.raises(Unavailable):
        await recorder.flush()
    log.away = False
    await recorder.flush()
    assert set(log.records) == {record.id}


async def test_a_gateway_that_stops_stores_the_rest(world: World) -> None:
    completion = await world.ask()
    assert not world.completions.records
    await world.stop()
    assert set(world.completions.records) == {completion.id}
