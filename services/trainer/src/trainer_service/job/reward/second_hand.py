"""Tests of a problem that judge its programs and earn nothing: a second hand, which the policy does not learn from.

A program that passes the tests that are rewarded and fails these was written for the tests. Their share rises where
a policy learns to please a reward that can be hacked.
"""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ratchet_environments import Task
from ratchet_environments.code import Ran
from ratchet_kit.errors import InvalidArgument, Unavailable
from ratchet_problems import Problem


@dataclass(frozen=True, slots=True)
class Hands:
    """A problem by its two hands of tests."""

    rewarded: Problem
    unrewarded: Problem | None
    """None: all of its tests are rewarded."""


def hands(problem: Problem, share: float) -> Hands:
    """Takes `share` of the problem's tests out of what is rewarded: one at least, and never all; held-out ones first.
    The same problem is always split alike, so that a resumed run goes on with the same tests."""
    count = min(len(problem.tests) - 1, max(1, round(share * len(problem.tests))))
    if not share or count < 1:
        return Hands(problem, None)
    order = sorted(
        range(len(problem.tests)), key=lambda place: (not problem.tests[place].held_out, _digest(problem, place))
    )
    taken = set(order[:count])
    rewarded = tuple(test for place, test in enumerate(problem.tests) if place not in taken)
    unrewarded = tuple(test for place, test in enumerate(problem.tests) if place in taken)
    return Hands(replace(problem, tests=rewarded), replace(problem, tests=unrewarded))


def _digest(problem: Problem, place: int) -> bytes:
    test = json.dumps(problem.tests[place].to_json(), sort_keys=True)
    return hashlib.sha256(f"{problem.id}\n{place}\n{test}".encode("utf-8", "replace")).digest()


class Judge(Protocol):
    """`ratchet_environments.code.CodeEnvironment`."""

    async def run(self, task: Task, answer: str) -> Ran:
        """Raises Unavailable, InvalidArgument."""
        ...


class SecondHand:
    """`share`: of each problem's tests; 0: none is held."""

    def __init__(self, judge: Judge, share: float = 0.0) -> None:
        self._judge = judge
        self._share = share

    def split(self, problem: Problem) -> Hands:
        return hands(problem, self._share)

    async def passes(self, unrewarded: Problem, answers: Sequence[str]) -> list[bool | None]:
        """One for each answer, in order; None where the platform reached no verdict: nothing is learned from it."""
        task = Task.of(unrewarded)
        ran = await asyncio.gather(*(self._judge.run(task, answer) for answer in answers), return_exceptions=True)
        for one in ran:
            if isinstance(one, BaseException) and not isinstance(one, Unavailable | InvalidArgument):
                raise one
        return [None if isinstance(one, BaseException) else one.grade.passed for one in ran]
