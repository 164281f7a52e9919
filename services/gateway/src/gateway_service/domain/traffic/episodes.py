"""Episodes of production: what one program said to models, as far as it is kept, as a session."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest

from gateway_service.domain.traffic.exchange import Exchange
from gateway_service.domain.traffic.ports import ExchangeStore
from ratchet_kit.errors import ResourceExhausted
from ratchet_policies import ChatPrompt, FinishReason, TextPrompt
from ratchet_problems import Message
from ratchet_sessions import Session
from ratchet_sessions.session import Call, Question

MOST_BESIDE = 200
"""Exchanges before the one that is looked at, and after it."""
MOST_LETTERS = 12 << 20
"""Letters of an episode: gRPC takes 64 MiB. A longer one has half as many exchanges on both sides, or fewer."""


@dataclass(frozen=True, slots=True)
class Episode:
    session: Session
    """Its calls have no tokens; a role is a model's name."""
    exchanges: Sequence[Exchange]
    """For each call the one that it is of."""

    @property
    def letters(self) -> int:
        return self.session.letters + sum(len(one.accepted.text) for one in self.exchanges if one.accepted)


async def episode(store: ExchangeStore, completion_id: str) -> Episode:
    """The exchanges of its session, or without one those that it goes on from and that go on from it.

    Raises NotFound, Unavailable.
    """
    one = await store.get(completion_id)
    return await asyncio.to_thread(_fitting, one, await store.beside(one, MOST_BESIDE))


def _fitting(one: Exchange, beside: Iterable[Exchange]) -> Episode:
    """With as many on both sides as there is room for."""
    ordered = sorted(beside, key=lambda each: each.id)
    before = [each for each in ordered if each.id < one.id]
    after = [each for each in ordered if each.id > one.id]
    most = MOST_BESIDE
    while most:
        with suppress(ResourceExhausted):  # more than a session may have
            found = _episode(one, [*before[-most:], one, *after[:most]])
            if found.letters <= MOST_LETTERS:
                return found
        most //= 2
    return _episode(one, [one])


def _episode(one: Exchange, found: Iterable[Exchange]) -> Episode:
    episode = _of(sorted(found, key=_end))
    return episode if one.session else _of(_joined(episode, one))


def _end(exchange: Exchange) -> tuple[datetime, str]:
    """A call goes on from those that had ended, and shows what is new since then."""
    return exchange.start_time + exchange.latency, exchange.id


def _of(exchanges: Iterable[Exchange]) -> Episode:
    session, of = Session(), list[Exchange]()
    for exchange in exchanges:
        question, material = _question(exchange), exchange.material
        for answer, reason in zip_longest(material.answers, material.finish_reasons[: len(material.answers)]):
            call = Call(
                index=len(session.calls),
                question=question,
                origin=session.origin(question),
                answer=answer,
                prompt_ids=(),
                token_ids=(),
                log_probs=(),
                policy_id=exchange.policy_id,
                finish_reason=reason or FinishReason.UNFINISHED,
                start_time=exchange.start_time,
                end_time=exchange.start_time + exchange.latency,
            )
            session.add(call)
            of.append(exchange)
    return Episode(session, of)


def _question(exchange: Exchange) -> Question:
    match exchange.material.prompt:
        case ChatPrompt(messages, tools):
            return Question(exchange.version.model, messages, tools)
        case TextPrompt(text, suffix):
            gap = f" ... {suffix}" if suffix else ""
            return Question(exchange.version.model, (Message("text", f"{text}{gap}"),))
    raise AssertionError("a prompt of token ids is not kept")


def _joined(episode: Episode, one: Exchange) -> Iterable[Exchange]:
    """The exchanges whose way through the session begins where a way of `one` begins."""
    joined = list(range(len(episode.exchanges)))
    """For each call the first one of its way."""
    for call in episode.session.calls:
        if call.origin.parent is not None:
            joined[call.index] = joined[call.origin.parent]
    firsts = {first for exchange, first in zip(episode.exchanges, joined, strict=True) if exchange.id == one.id}
    found = {e.id: e for e, first in zip(episode.exchanges, joined, strict=True) if first in firsts}
    return found.values()
