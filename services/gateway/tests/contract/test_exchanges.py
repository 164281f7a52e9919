"""One suite for the store of exchanges: in memory, on SQLite and on PostgreSQL."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from gateway_service.adapters.sql import exchanges as sql_exchanges
from gateway_service.adapters.sql.completions import SqlCompletionLog
from gateway_service.adapters.sql.exchanges import SqlExchangeStore
from gateway_service.adapters.sql.tables import exchanges, forgotten, revisions
from gateway_service.domain.traffic.exchange import Accepted, Choice, Exchange, Selection
from gateway_service.domain.traffic.material import Material
from gateway_service.domain.traffic.ports import CompletionLog, ExchangeStore
from gateway_service.domain.traffic.record import Arm, CompletionRecord, ProblemRef, Unit, unit_id
from ratchet_kit.errors import AlreadyExists, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.names import VersionRef
from ratchet_kit.sql import Database
from ratchet_policies import ChatPrompt, TextPrompt, Tool, Tools
from ratchet_problems import Message, ToolCall

from ..memory import MemoryCompletionLog
from ..memory_exchanges import MemoryExchangeStore

NOW = datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
HOSTILE = "a NUL \0, \x1b[31m, \u2028, ä 😀, \\u0000, '\";--"
CHAT = ChatPrompt(
    (
        Message("system", HOSTILE),
        Message("assistant", "", (ToolCall("find", '{"a": 1}', "call_1", 0),)),
        Message("tool", "42", tool_call_id="call_1"),
    ),
    Tools((Tool("find", "finds", '{"type": "object"}', True),), required=True, single=True),
)


@dataclass(frozen=True)
class Stores:
    log: CompletionLog
    exchanges: ExchangeStore


@pytest.fixture
def stores(database_or_memory: Database | None) -> Stores:
    if database_or_memory is None:
        log = MemoryCompletionLog()
        return Stores(log, MemoryExchangeStore(log))
    return Stores(SqlCompletionLog(database_or_memory), SqlExchangeStore(database_or_memory))


def record(number: int, **changes: object) -> CompletionRecord:
    made = CompletionRecord(
        id=f"cmpl_{number:03}",
        start_time=NOW + timedelta(seconds=number),
        version=VersionRef("starter", 2),
        arm=Arm.CANDIDATE,
        latency=timedelta(seconds=1),
        release_id="rel_1",
        policy_id="sha256:ab",
        prompt_tokens=3,
        completion_tokens=5,
        key_id="key_1",
        user=unit_id(Unit.USER, "ann"),
        session=unit_id(Unit.SESSION, "s1"),
        material=Material(TextPrompt("say hi"), (Message("assistant", "hi"),), 20, is_redacted=True),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def request(number: int = 1, content: str = "") -> Request:
    return Request.of(f"req_{number}", content)


async def test_gives_back_what_was_kept(stores: Stores) -> None:
    answers = (Message("assistant", HOSTILE), Message("assistant", "", (ToolCall("find", "{}", "call_2"),)))
    chat = record(1, material=Material(CHAT, answers, 99, is_redacted=True), experiment_id="exp_1", variant="b")
    await stores.log.append([chat, record(2), record(3, material=None)])
    await stores.log.append([chat, record(2)])
    assert await stores.exchanges.get("cmpl_001") == Exchange.of(chat)
    assert await stores.exchanges.get("cmpl_002") == Exchange.of(record(2))
    assert await stores.log.get("cmpl_001") == replace(chat, material=None)
    with pytest.raises(NotFound):
        await stores.exchanges.get("cmpl_003")
    assert await stores.exchanges.some(["cmpl_002", "cmpl_003"]) == [Exchange.of(record(2))]
    assert list(await stores.exchanges.some([])) == []


async def test_what_is_not_redacted_is_not_written(stores: Stores) -> None:
    with pytest.raises(AssertionError):
        await stores.log.append([record(1, material=Material(TextPrompt("a secret"), ()))])
    assert await stores.exchanges.page(Selection(), 10, None) == []


async def test_lists_what_is_selected_newest_first(stores: Stores) -> None:
    other = VersionRef("other", 1)
    await stores.log.append([record(1), record(2, version=other), record(3, key_id="key_2"), record(4)])
    await stores.exchanges.accept("cmpl_001", Accepted("hi"), request(1))
    await stores.exchanges.accept("cmpl_002", Accepted("hello"), request(2))
    await stores.exchanges.choose("cmpl_003", Choice(0, "cmpl_004", 0), request(3))

    async def ids(limit: int = 10, after: str | None = None, **narrowed: object) -> list[int]:
        selection = Selection(**narrowed)  # type: ignore[arg-type]
        return [int(one.id[-3:]) for one in await stores.exchanges.page(selection, limit, after)]

    assert await ids() == [4, 3, 2, 1]
    assert await ids(2) == [4, 3]
    assert await ids(2, "cmpl_003") == [2, 1]
    assert await ids(model="other") == [2]
    assert await ids(key_id="key_2") == [3]
    assert await ids(start_time=NOW + timedelta(seconds=2), end_time=NOW + timedelta(seconds=4)) == [3, 2]
    assert await ids(session="s1") == [4, 3, 2, 1]
    assert await ids(session="s2") == []
    assert await ids(accepted=True) == [2, 1]
    assert await ids(compared=True) == [3, 2]


async def test_those_beside_one_are_of_its_session_or_else_of_its_sender(stores: Stores) -> None:
    s2, bob = unit_id(Unit.SESSION, "s2"), unit_id(Unit.USER, "bob")
    alone = [record(number, session="") for number in (6, 7, 8)]
    others = [record(9, session=s2), record(10, session="", user=bob), record(11, session="", key_id="key_2")]
    await stores.log.append([*(record(number, key_id=f"key_{number}") for number in range(1, 6)), *alone, *others])

    async def beside(number: int, limit: int = 10) -> list[int]:
        one = await stores.exchanges.get(f"cmpl_{number:03}")
        return sorted(int(each.id[-3:]) for each in await stores.exchanges.beside(one, limit))

    assert await beside(3) == [1, 2, 4, 5]
    assert await beside(3, 1) == [2, 4]
    assert await beside(7) == [6, 8]
    assert [await beside(number) for number in (9, 10, 11)] == [[], [], []]


async def test_a_score_is_that_of_the_record(stores: Stores) -> None:
    await stores.log.append([record(1)])
    problem = ProblemRef("composed/test", "p1")
    await stores.log.set_score("cmpl_001", 0.5, problem, request(1))
    exchange = await stores.exchanges.get("cmpl_001")
    assert (exchange.score, exchange.problem) == (0.5, problem)
    await stores.log.set_score("cmpl_001", 1.0, None, request(2))
    exchange = await stores.exchanges.get("cmpl_001")
    assert (exchange.score, exchange.problem) == (1.0, None)


async def test_metrics_beside_material_go_to_the_record(stores: Stores) -> None:
    await stores.log.append([record(1)])
    await stores.exchanges.accept("cmpl_001", Accepted("hi"), request(1), {"a": 1.0})
    await stores.exchanges.choose("cmpl_001", Choice(0, "cmpl_002", 1), request(2), {"b": 2.0})
    assert (await stores.log.get("cmpl_001")).metrics == {"a": 1.0, "b": 2.0}
    await stores.log.forget_records(NOW + timedelta(days=1))
    await stores.exchanges.accept("cmpl_001", Accepted("later"), request(3), {"a": 3.0})
    assert (await stores.exchanges.get("cmpl_001")).accepted == Accepted("later")


async def test_what_people_say_is_kept_once_for_a_request(stores: Stores) -> None:
    await stores.log.append([record(1)])
    accept, choose = stores.exchanges.accept, stores.exchanges.choose
    await accept("cmpl_001", Accepted(HOSTILE), request(1, "a"))
    await accept("cmpl_001", Accepted("later"), request(2, "b"))
    await accept("cmpl_001", Accepted(HOSTILE), request(1, "a"))
    for number in (3, 4):
        await choose("cmpl_001", Choice(0, "cmpl_002", 1), request(number))
    exchange = await stores.exchanges.get("cmpl_001")
    assert (exchange.accepted, exchange.choices) == (Accepted("later"), (Choice(0, "cmpl_002", 1),))
    with pytest.raises(AlreadyExists):
        await accept("cmpl_001", Accepted("other"), request(1, "c"))
    with pytest.raises(AlreadyExists):
        await stores.log.set_score("cmpl_001", 1.0, None, request(1, "c"))
    with pytest.raises(NotFound):
        await accept("cmpl_009", Accepted("other"), request(5))
    with pytest.raises(NotFound):
        await choose("cmpl_009", Choice(0, "cmpl_001", 0), request(6))
    assert await stores.log.find_score(request(5)) is None


async def test_a_user_a_session_or_a_key_is_forgotten(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_exchanges, "AT_ONCE", 2)
    bob, s2 = unit_id(Unit.USER, "bob"), unit_id(Unit.SESSION, "s2")
    texts = {"texts": ("an answer",), "material": None}
    await stores.log.append(
        [
            *(record(number) for number in range(1, 6)),
            record(6, user=bob),
            record(7, user=bob, session=s2),
            record(8, user=bob, session=s2, key_id="key_2"),
            *(record(number, **texts) for number in range(9, 12)),
            record(12, user="", unit=unit_id(Unit.USER, "ann"), **texts),
            record(13, user=bob, session=s2, key_id="key_2", **texts),
            record(14, start_time=NOW + timedelta(hours=1)),
        ]
    )
    now = NOW + timedelta(minutes=1)

    async def left() -> list[int]:
        return [int(one.id[-3:]) for one in await stores.exchanges.page(Selection(), 99, None)]

    assert await stores.exchanges.forget(Unit.USER, "ann", now) == 9  # the last as records were without a user
    assert await left() == [14, 8, 7, 6]
    for number in (9, 10, 11):
        assert (await stores.log.get(f"cmpl_{number:03}")).texts == ()
    assert await stores.exchanges.forget(Unit.SESSION, "s1", now) == 1
    assert await left() == [14, 8, 7]
    assert await stores.exchanges.forget(Unit.KEY, "key_2", now) == 2
    assert await left() == [14, 7]
    assert (await stores.log.get("cmpl_013")).texts == ()
    assert await stores.exchanges.forget(Unit.KEY, "key_2", now) == 0


async def test_who_was_forgotten_is_not_written_later(stores: Stores) -> None:
    await stores.exchanges.forget(Unit.USER, "ann", NOW + timedelta(seconds=2))
    judged = record(4, texts=("hi",), material=None, start_time=NOW)
    await stores.log.append([record(1), record(2), record(3), judged, record(5, user="", start_time=NOW)])
    assert [one.id for one in await stores.exchanges.page(Selection(), 9, None)] == ["cmpl_005", "cmpl_003"]
    assert (await stores.log.get("cmpl_004")).texts == ()
    assert (await stores.log.get("cmpl_002")).completion_tokens == 5


async def test_who_is_forgotten_is_told_until_it_is_known(stores: Stores) -> None:
    ann, later = unit_id(Unit.USER, "ann"), NOW + timedelta(hours=1)
    await stores.exchanges.forget(Unit.USER, "ann", NOW)
    assert await stores.exchanges.unconfirmed() == {ann: NOW}
    await stores.exchanges.forget(Unit.USER, "ann", later)
    await stores.exchanges.confirm({ann: NOW})
    assert await stores.exchanges.unconfirmed() == {ann: later}, "forgotten anew meanwhile"
    await stores.exchanges.confirm({ann: later})
    assert await stores.exchanges.unconfirmed() == {}


async def test_old_ones_are_removed(stores: Stores) -> None:
    await stores.log.append([record(number) for number in range(4)])
    assert await stores.exchanges.remove(NOW + timedelta(seconds=2)) == 2
    assert [one.id for one in await stores.exchanges.page(Selection(), 9, None)] == ["cmpl_003", "cmpl_002"]
    assert await stores.exchanges.remove(NOW + timedelta(seconds=2)) == 0


async def test_whom_was_forgotten_is_forgotten_in_time(database: Database) -> None:
    store = SqlExchangeStore(database)
    await store.forget(Unit.USER, "ann", NOW)
    await store.forget(Unit.USER, "bob", NOW + timedelta(days=2))
    await store.remove(NOW + timedelta(days=1))
    assert len(await database.rows(select(forgotten))) == 2, "the registry does not know it yet"
    await store.confirm(await store.unconfirmed())
    await store.remove(NOW + timedelta(days=1))
    assert [row.unit for row in await database.rows(select(forgotten))] == [unit_id(Unit.USER, "bob")]


async def test_what_cannot_be_read_hides_no_other(database: Database) -> None:
    log, store = SqlCompletionLog(database), SqlExchangeStore(database)
    await log.append([record(number) for number in range(1, 4)])
    async with database.writing() as connection:
        await connection.execute(update(exchanges).where(exchanges.c.id == "cmpl_002").values(material={"un": 1}))
    assert [one.id for one in await store.page(Selection(), 2, None)] == ["cmpl_003", "cmpl_001"]


@pytest.mark.integration
async def test_who_forgets_waits_for_what_is_being_written(postgres_url: str) -> None:
    """Else a text that another gateway writes at the same moment would stay."""
    async with Database.opened(postgres_url, "gateway_service") as database:
        store = SqlExchangeStore(database)
        async with database.writing() as connection:
            held = await sql_exchanges.sifted(connection, [record(1)])
            forgetting = asyncio.create_task(store.forget(Unit.USER, "ann", NOW + timedelta(minutes=1)))
            await asyncio.sleep(0.3)
            assert not forgetting.done()
            await sql_exchanges.add(connection, held)
            assert (await connection.execute(select(revisions))).all()
        assert await forgetting == 1
        assert await store.page(Selection(), 9, None) == []


@pytest.mark.integration
async def test_gateways_write_beside_one_another(postgres_url: str) -> None:
    async with Database.opened(postgres_url, "gateway_service") as database:
        log = SqlCompletionLog(database)
        async with database.writing() as connection:
            await sql_exchanges.sifted(connection, [record(1)])
            await asyncio.wait_for(log.append([record(2)]), 5)
