"""What can be learned from exchanges: pairs of answers for DPO, and problems with references for SFT."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gateway_service.domain.traffic.exchange import Exchange
from gateway_service.domain.traffic.record import Unit, unit_id
from ratchet_policies import ChatPrompt, Prompt, TextPrompt
from ratchet_problems import Message


@dataclass(frozen=True, slots=True)
class Pair:
    """Two answers to one prompt. The prompt is a conversation, or a text to go on with."""

    prompt: Sequence[Message] | str
    chosen: str
    rejected: str
    of: tuple[Exchange, ...]
    """The exchange, or the two of the same prompt, that it is made of."""

    @property
    def units(self) -> Sequence[str]:
        """Whose it is: who of them is forgotten takes it along. As `unit_id`."""
        units = [unit for one in self.of for unit in (one.user, one.session, unit_id(Unit.KEY, one.key_id))]
        return [unit for unit in dict.fromkeys(units) if unit]

    @property
    def senders(self) -> Sequence[str]:
        """Users; where none was named their session, or the exchange itself."""
        return list(dict.fromkeys(one.user or one.session or one.id for one in self.of))

    @property
    def characters(self) -> int:
        texts = [self.prompt] if isinstance(self.prompt, str) else [message.content for message in self.prompt]
        return sum(map(len, (*texts, self.chosen, self.rejected)))


@dataclass(frozen=True, slots=True)
class Lesson:
    """A problem without tests, whose reference is what people accepted."""

    id: str
    prompt: str
    reference: str
    conversation: Sequence[Message] = ()
    """The messages before the prompt."""


def pairs(exchange: Exchange, known: Mapping[str, Exchange]) -> Iterator[Pair]:
    """Those of its choices, and of its accepted text where that is not the answer. `known`: the exchanges of the worse
    answers, as far as they are kept. No conversation with tools, of which such data sets have no common form."""
    prompt = _plain(exchange.material.prompt)
    if prompt is None:
        return
    for choice in exchange.choices:
        over = known.get(choice.over_id)
        better, worse = exchange.answer(choice.index), over.answer(choice.over_index) if over else None
        if better is not None and worse is not None and better != worse:
            yield Pair(prompt, better, worse, (exchange, over) if over and over.id != exchange.id else (exchange,))
    if exchange.accepted is not None and exchange.is_edited:
        answer = exchange.answer(exchange.accepted.index)
        if answer is not None:
            yield Pair(prompt, exchange.accepted.text, answer, (exchange,))


def lesson(exchange: Exchange) -> Lesson | None:
    """Made of a text that was accepted as the answer to a user's message, the last of a chat; else None."""
    prompt = _plain(exchange.material.prompt)
    if exchange.accepted is None or not prompt or isinstance(prompt, str):
        return None
    *before, last = prompt
    if last.role != "user" or not all(message.content.strip() for message in prompt):
        return None
    return Lesson(f"traffic/{exchange.id}", last.content, exchange.accepted.text, tuple(before))


def _plain(prompt: Prompt) -> Sequence[Message] | str | None:
    """None where tools are in it, or a gap to be filled."""
    match prompt:
        case TextPrompt(text, ""):
            return text
        case ChatPrompt(messages, None):
            with_tools = any(message.tool_calls or message.tool_call_id for message in messages)
            return None if with_tools else messages
    return None
