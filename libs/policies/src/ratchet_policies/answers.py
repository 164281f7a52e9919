"""Answers of several nodes to one question."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from ratchet_kit.errors import RatchetError, Unavailable
from ratchet_policies import route
from ratchet_policies.member import Member

Answers: TypeAlias = list[tuple[Member, Any]]
"""Each node's answer, or the RatchetError that it raises."""


async def gathered(members: Sequence[Member], call: Callable[[Member], Awaitable[Any]]) -> Answers:
    answers = await asyncio.gather(*(call(member) for member in members), return_exceptions=True)
    for member, answer in zip(members, answers, strict=True):
        if isinstance(answer, BaseException) and not isinstance(answer, RatchetError):
            raise answer
        if isinstance(answer, Unavailable):
            member.look.set()
    return list(zip(members, answers, strict=True))


async def patiently(look: Callable[[], Awaitable[Answers]], verdict: Callable[[Answers], RatchetError]) -> Answers:
    """The good ones of what `look` finds.

    Raises the verdict on the errors without a good answer; where that says that nobody answers, it looks again first.
    """
    for wait in (*route.WAITS, None):
        answers = await look()
        if found := good(answers):
            return found
        error = verdict(answers)
        if wait is None or not isinstance(error, Unavailable):
            raise error
        await asyncio.sleep(wait)
    raise AssertionError("the last look returns or raises")


def good(answers: Answers) -> Answers:
    return [(member, answer) for member, answer in answers if not isinstance(answer, RatchetError)]


def first_error(answers: Answers) -> RatchetError:
    errors = (answer for _, answer in answers if isinstance(answer, RatchetError))
    return next(errors, Unavailable("no rollout node answers"))
