"""The engines that one request is sent to, until one of them answers."""

import asyncio
import random
from collections.abc import Callable

from ratchet_kit import metrics
from ratchet_kit.errors import Cancelled, NotFound, RatchetError, ResourceExhausted, Unavailable
from ratchet_policies.generation import Prompt
from ratchet_policies.loading import LOST
from ratchet_policies.member import Member
from ratchet_policies.prefix_choice import beginning, choose

AGAIN: tuple[type[RatchetError], ...] = (Unavailable, Cancelled, ResourceExhausted, *LOST)
"""Errors where another engine may do better."""
WAITS = (0.2, 0.4, 0.8, 1.6)
"""Seconds after each round in which no engine could answer; then the request fails."""

_again = metrics.counter("rollout_requests_again", "Generations sent again, to this or another engine.", ("reason",))


class Route:
    """The engines that a request is sent to, one after the other."""

    def __init__(self, members: Callable[[], list[Member]], policy: str, policy_id: str, prompt: Prompt) -> None:
        self._members = members
        self._policy = policy
        self._policy_id = policy_id
        self._prompt = prompt
        self._tried: set[str] = set()
        self._errors: list[RatchetError] = []
        """Errors of members tried since the last wait."""
        self._waits = iter(WAITS)

    async def next(self) -> Member:
        """The next one to try; waits where all were tried, and one of them may answer soon. Else raises their error."""
        while (member := self._untried()) is None:
            passing = [error for error in self._errors if isinstance(error, Unavailable | Cancelled)]
            if self._errors and not passing:
                raise min(self._errors, key=lambda error: isinstance(error, NotFound))
            wait = next(self._waits, None)
            if wait is None:
                raise Unavailable(passing[0].message if passing else "no rollout node takes requests now")
            await asyncio.sleep(wait * random.uniform(0.8, 1.2))
            self._tried.clear()
            self._errors.clear()
        self._tried.add(member.address)
        return member

    def failed(self, error: RatchetError) -> None:
        self._errors.append(error)
        _again.labels(type(error).__name__).inc()

    def another(self) -> Member | None:
        """One more that has the policy ready, beside those that were tried."""
        member = self._choose([member for member in self._members() if member.address not in self._tried])
        if member is not None:
            self._tried.add(member.address)
        return member

    def _untried(self) -> Member | None:
        policy = self._policy
        members = [member for member in self._members() if member.address not in self._tried]
        if (ready := self._choose(members)) is not None:
            return ready
        # What a node says of itself is up to a second old: the others are asked, who holds it by name first.
        members.sort(key=lambda member: (not member.allows(policy), not member.holds(policy)))
        return members[0] if members else None

    def _choose(self, members: list[Member]) -> Member | None:
        """Members that have the policy ready."""
        policy = self._policy
        ready = [member for member in members if member.is_ready(policy, self._policy_id)]
        if len(ready) > 1:
            return choose(ready, lambda each: each.address, lambda each: each.load(policy), beginning(self._prompt))
        return ready[0] if ready else None
