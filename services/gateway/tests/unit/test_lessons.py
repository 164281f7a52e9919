from dataclasses import replace

from gateway_service.domain.traffic.exchange import Accepted, Choice, Exchange
from gateway_service.domain.traffic.lessons import Lesson, Pair, lesson, pairs
from gateway_service.domain.traffic.material import Material
from gateway_service.domain.traffic.record import Arm
from ratchet_kit.names import VersionRef
from ratchet_policies import ChatPrompt, Prompt, TextPrompt, Tool, Tools
from ratchet_problems import Message, ToolCall

from ..doubles import EPOCH

ASKED = (Message("user", "Write add."),)


def exchange(*answers: str, prompt: Prompt = ChatPrompt(ASKED), id: str = "cmpl_1") -> Exchange:
    material = Material(prompt, tuple(Message("assistant", answer) for answer in answers), is_redacted=True)
    return Exchange(id, EPOCH, VersionRef("starter", 1), Arm.NONE, "key_1", material)


def test_an_edit_is_better_than_the_answer() -> None:
    edited = replace(exchange("good", "bad"), accepted=Accepted("better", 1))
    assert list(pairs(edited, {})) == [Pair(ASKED, "better", "bad", (edited,))]
    assert list(pairs(replace(edited, accepted=Accepted("bad", 1)), {})) == []


def test_choices_need_both_answers() -> None:
    first = replace(exchange("a", "b"), choices=(Choice(1, "cmpl_1", 0), Choice(0, "cmpl_2", 0)))
    second = exchange("c", id="cmpl_2")
    assert list(pairs(first, {"cmpl_1": first, "cmpl_2": second})) == [
        Pair(ASKED, "b", "a", (first,)),
        Pair(ASKED, "a", "c", (first, second)),
    ]
    assert list(pairs(first, {"cmpl_1": first})) == [Pair(ASKED, "b", "a", (first,))]
    same = replace(exchange("a", "a"), choices=(Choice(1, "cmpl_1", 0),))
    assert list(pairs(same, {"cmpl_1": same})) == []


def test_a_prompt_that_is_a_text_stays_one() -> None:
    edited = replace(exchange("bad", prompt=TextPrompt("def f(")), accepted=Accepted("x): ..."))
    assert list(pairs(edited, {})) == [Pair("def f(", "x): ...", "bad", (edited,))]
    assert lesson(edited) is None


def test_a_gap_that_was_filled_makes_no_pair() -> None:
    edited = replace(exchange("bad", prompt=TextPrompt("def f(", "return x")), accepted=Accepted("x): ..."))
    assert list(pairs(edited, {})) == []


def test_conversations_with_tools_are_left_out() -> None:
    prompts = (
        ChatPrompt(ASKED, Tools((Tool("find"),))),
        ChatPrompt((*ASKED, Message("assistant", "", (ToolCall("find"),)))),
        ChatPrompt((*ASKED, Message("tool", "42", tool_call_id="call_1"))),
    )
    for prompt in prompts:
        edited = replace(exchange("bad", prompt=prompt), accepted=Accepted("better"))
        assert list(pairs(edited, {})) == []
        assert lesson(edited) is None
    called = replace(exchange("bad"), accepted=Accepted("better"))
    material = replace(called.material, answers=(Message("assistant", "", (ToolCall("find"),)),))
    assert list(pairs(replace(called, material=material), {})) == []


def test_a_lesson_ends_with_a_message_of_a_user() -> None:
    accepted = replace(exchange("answer"), accepted=Accepted("def add(): ..."))
    assert lesson(accepted) == Lesson("traffic/cmpl_1", "Write add.", "def add(): ...")
    assert lesson(exchange("answer")) is None
    before = (Message("system", "Be kind."), *ASKED, Message("assistant", "def add(): ..."))
    asked = exchange("answer", prompt=ChatPrompt((*before, Message("user", "Shorter."))))
    assert lesson(replace(asked, accepted=Accepted("text"))) == Lesson("traffic/cmpl_1", "Shorter.", "text", before)
    for messages in ((Message("system", ""), *ASKED), (Message("user", " "),), (Message("system", "hi"),), before, ()):
        other = exchange("answer", prompt=ChatPrompt(messages))
        assert lesson(replace(other, accepted=Accepted("text"))) is None
