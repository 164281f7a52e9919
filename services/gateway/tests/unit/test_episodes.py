"""Episodes of production: which exchanges are one, and what of them is shown."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gateway_service.domain.traffic import episodes
from gateway_service.domain.traffic.exchange import Exchange
from gateway_service.domain.traffic.material import Material
from gateway_service.domain.traffic.record import Arm, CompletionRecord
from ratchet_kit.errors import NotFound
from ratchet_kit.names import VersionRef
from ratchet_policies import ChatPrompt, FinishReason, Prompt, TextPrompt
from ratchet_problems import Message, ToolCall
from ratchet_sessions import record as sessions
from ratchet_sessions.session import BranchReason

from ..memory import MemoryCompletionLog
from ..memory_exchanges import MemoryExchangeStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SYSTEM, SUM, HELLO = Message("system", "Be brief."), Message("user", "Sum it."), Message("user", "Hello.")
CALLED = Message("assistant", "", (ToolCall("bash", '{"command": "ls"}', "c1"),))
RESULT, DONE, HI = (
    Message("tool", "a.py", tool_call_id="c1"),
    Message("assistant", "Done."),
    Message("assistant", "Hi."),
)


def kept(
    number: int, prompt: Prompt | Sequence[Message], *answers: Message, session: str = "", user: str = "ann"
) -> CompletionRecord:
    reasons = tuple(FinishReason.TOOL_CALLS if one.tool_calls else FinishReason.LENGTH for one in answers)
    whole = prompt if isinstance(prompt, TextPrompt) else ChatPrompt(tuple(prompt))  # type: ignore[arg-type]
    return CompletionRecord(
        id=f"cmpl_{number:03}",
        start_time=NOW + timedelta(seconds=number),
        version=VersionRef("starter", 2),
        arm=Arm.NONE,
        latency=timedelta(seconds=0.5),
        policy_id="sha256:p",
        key_id="key_1",
        user=user,
        session=session,
        material=Material(whole, answers, 20, reasons, is_redacted=True),
    )


async def episode(records: Sequence[CompletionRecord], number: int) -> episodes.Episode:
    log = MemoryCompletionLog()
    await log.append(records)
    return await episodes.episode(MemoryExchangeStore(log), f"cmpl_{number:03}")


def numbers(exchanges: Sequence[Exchange]) -> list[int]:
    return [int(one.id[-3:]) for one in exchanges]


ONE_WAY = (
    kept(1, (SYSTEM, SUM), CALLED),
    kept(2, (SYSTEM, HELLO), HI),
    kept(3, (SYSTEM, SUM, CALLED, RESULT), DONE),
    kept(4, (SYSTEM, SUM, CALLED, RESULT), DONE, user="bob"),
    kept(5, (SYSTEM, SUM, CALLED, RESULT, DONE, HELLO), HI),
)


@pytest.mark.parametrize("number", [1, 3, 5])
async def test_without_a_session_it_is_what_goes_on(number: int) -> None:
    found = await episode(ONE_WAY, number)
    assert numbers(found.exchanges) == [1, 3, 5]
    first, second, third = found.session.calls
    assert (second.origin.parent, third.origin.parent) == (0, 1)
    assert found.session.branches.keys() == {0}
    assert sessions.new_messages(found.session) == [(SYSTEM, SUM), (RESULT,), (HELLO,)]
    assert (first.answer, first.finish_reason, second.finish_reason) == (
        CALLED,
        FinishReason.TOOL_CALLS,
        FinishReason.LENGTH,
    )
    assert second.end_time - second.start_time == timedelta(seconds=0.5)
    assert sessions.from_json(sessions.to_json(found.session)) == found.session


async def test_another_conversation_with_the_same_beginning_is_another_episode() -> None:
    assert numbers((await episode(ONE_WAY, 2)).exchanges) == [2]


async def test_a_session_is_one_episode_whatever_was_rewritten() -> None:
    records = [replace(one, session="s") for one in ONE_WAY[:3]]
    other = kept(6, (SYSTEM, SUM, CALLED, RESULT), DONE)
    found = await episode([*records, other], 2)
    assert numbers(found.exchanges) == [1, 2, 3]
    branch = found.session.branches[1]
    assert (branch.reason, branch.call, branch.message) == (BranchReason.REWRITTEN, 0, 1)


async def test_all_answers_of_a_prompt_are_in_it_and_it_goes_on_from_each() -> None:
    records = [kept(1, (SUM,), HI, DONE), kept(2, (SUM, DONE, HELLO), HI), kept(3, (SUM, HI, SUM), DONE)]
    found = await episode(records, 2)
    assert numbers(found.exchanges) == [1, 1, 2]
    assert [call.origin.parent for call in found.session.calls] == [None, None, 1]


async def test_a_text_is_an_episode_by_itself() -> None:
    records = [kept(1, TextPrompt("def f("), HI), kept(2, TextPrompt("def f(", "return x"), HI)]
    (call,) = (await episode(records, 2)).session.calls
    assert call.question.messages == (Message("text", "def f( ... return x"),)


async def test_what_an_earlier_version_kept_has_no_reason_for_its_end() -> None:
    old = kept(1, (SUM,), HI)
    assert old.material is not None
    (call,) = (await episode([replace(old, material=replace(old.material, finish_reasons=()))], 1)).session.calls
    assert call.finish_reason is FinishReason.UNFINISHED


async def test_of_a_long_one_some_before_and_after_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "MOST_BESIDE", 2)
    records = [kept(number, (Message("user", str(number)),), HI, session="s") for number in range(1, 10)]
    assert numbers((await episode(records, 5)).exchanges) == [3, 4, 5, 6, 7]


async def test_of_many_answers_and_of_long_ones_fewer_exchanges_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [kept(number, (Message("user", str(number)),), *[HI] * 64, session="s") for number in range(1, 100)]
    found = numbers((await episode(many, 50)).exchanges)
    assert (found[0], found[-1]) == (25, 75), "a session has at most 4096 calls"
    monkeypatch.setattr(episodes, "MOST_LETTERS", 1000)
    records = [kept(number, (Message("user", "x" * 200),), HI, session="s") for number in range(1, 10)]
    records[4] = kept(5, (Message("user", "y" * 2000),), HI, session="s")
    assert numbers((await episode(records, 5)).exchanges) == [5], "however long it is"
    assert 1 < len((await episode(records, 9)).exchanges) < 9


async def test_calls_side_by_side_come_as_they_ended() -> None:
    slow = replace(kept(1, (SYSTEM, SUM), DONE, session="s"), latency=timedelta(seconds=9))
    fast, later = kept(2, (SYSTEM, HELLO), HI, session="s"), kept(3, (SYSTEM, SUM, DONE, HELLO), HI, session="s")
    found = await episode([slow, fast, replace(later, start_time=NOW + timedelta(seconds=11))], 1)
    assert numbers(found.exchanges) == [2, 1, 3]
    assert sessions.new_messages(found.session) == [(SYSTEM, HELLO), (SUM,), (HELLO,)]


async def test_of_what_is_not_kept_there_is_none() -> None:
    with pytest.raises(NotFound, match="nothing is kept of completion cmpl_009"):
        await episode(ONE_WAY, 9)
