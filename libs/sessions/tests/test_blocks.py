"""Answers as rows of blocks: one open at a time, whatever order the pieces come in."""

from collections.abc import Sequence

from ratchet_policies import Completion, FinishReason
from ratchet_problems import ToolCall
from ratchet_sessions.doors.blocks import Blocks, Closed, Grown, Opened, blocks_of

STOP = FinishReason.STOP


def seen(pieces: Sequence[Completion]) -> list[str]:
    """The changes: "+0" opens block 0, "0:text" adds to it, "-0" closes it."""
    blocks, said = Blocks(), []
    for piece in pieces:
        for change in blocks.add(piece):
            match change:
                case Opened(block):
                    said.append(f"+{block.index} {block.name}".strip())
                case Grown(block, text):
                    said.append(f"{block.index}:{text}")
                case Closed(block):
                    said.append(f"-{block.index}")
    return said


def text(words: str, reason: FinishReason = FinishReason.UNFINISHED) -> Completion:
    return Completion(0, words, reason)


def calls(*some: ToolCall, reason: FinishReason = FinishReason.UNFINISHED) -> Completion:
    return Completion(0, "", reason, tool_calls=some)


def test_a_text() -> None:
    assert seen([text("a"), text(""), text("b"), text("", STOP)]) == ["+0", "0:a", "0:b", "-0"]


def test_a_text_and_the_calls_after_it() -> None:
    pieces = [
        *(text("a"), calls(ToolCall("run", "", "c1", 0)), calls(ToolCall("", '{"x"', "", 0))),
        *(calls(ToolCall("", ":1}", "", 0)), calls(ToolCall("see", "{}", "c2", 1)), text("", STOP)),
    ]
    assert seen(pieces) == ["+0", "0:a", "-0", "+1 run", '1:{"x"', "1::1}", "-1", "+2 see", "2:{}", "-2"]


def test_calls_that_are_named_before_any_has_arguments() -> None:
    names = calls(ToolCall("run", "", "c1", 0), ToolCall("see", "", "c2", 1))
    arguments = calls(ToolCall("", "1", "", 0), ToolCall("", "2", "", 1), reason=STOP)
    assert seen([names, arguments]) == ["+0 run", "0:1", "-0", "+1 see", "1:2", "-1"]


def test_a_call_without_arguments_is_not_lost() -> None:
    assert seen([calls(ToolCall("run", "", "c1", 0)), text("", STOP)]) == ["+0 run", "-0"]


def test_a_text_after_a_call_is_a_block_of_its_own() -> None:
    assert seen([calls(ToolCall("run", "{}", "c1", 0)), text("b", STOP)]) == ["+0 run", "0:{}", "-0", "+1", "1:b", "-1"]


def test_an_answer_without_anything_has_no_blocks() -> None:
    assert seen([text("", STOP)]) == []


def test_a_whole_answer_has_the_blocks_of_its_pieces() -> None:
    whole = Completion(0, "a", FinishReason.TOOL_CALLS, tool_calls=(ToolCall("run", "{}", "c1", 0),), stop="x")
    blocks = blocks_of(whole)
    assert [(block.name, block.call_id, block.text) for block in blocks.made] == [("", "", "a"), ("run", "c1", "{}")]
    assert (blocks.finish_reason, blocks.stop) == (FinishReason.TOOL_CALLS, "x")
