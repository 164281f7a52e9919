"""What a step's completions were like, counted for the guards of the run: verdicts, repetition, equal rewards."""

import math
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

RUN = 4
"""Tokens of what is counted as a repetition."""


@dataclass(frozen=True, slots=True)
class Tallied:
    """One completion."""

    verdict: str
    """The sandbox's, without its prefix."""
    reward: float
    """As it is learned from."""
    clipped: bool
    """Its reward was beyond the limit."""
    repetition: float


def clip(reward: float, limit: float) -> float:
    """The reward, cut to within `limit` of 0; 0: no limit. Raises ValueError for one that is no finite number."""
    if not math.isfinite(reward):
        raise ValueError(f"a reward must be a finite number, not {reward}")
    return max(-limit, min(limit, reward)) if limit else reward


def repetition(tokens: Sequence[int]) -> float:
    """The share of its runs of four tokens that were in it before: seq-rep-4 (arXiv:1908.04319, section 5)."""
    runs = [tuple(tokens[start : start + RUN]) for start in range(len(tokens) - RUN + 1)]
    return 1 - len(set(runs)) / len(runs) if runs else 0.0


class Tally:
    """Counts the groups of a step. Groups are added by one thread and taken by another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: list[Sequence[Tallied]] = []

    def add(self, group: Sequence[Tallied]) -> None:
        """The completions of one prompt, without those that the platform failed."""
        with self._lock:
            self._groups.append(group)

    def take(self) -> dict[str, float]:
        """The metrics of what was added since the last time; none where nothing was. Shares are of completions,
        `groups_without_signal` of groups that have more than one."""
        with self._lock:
            groups, self._groups = [group for group in self._groups if group], []
        every = [one for group in groups for one in group]
        if not every:
            return {}
        verdicts = Counter(one.verdict for one in every)
        compared = [group for group in groups if len(group) > 1]
        alike = sum(len({one.reward for one in group}) == 1 for group in compared)
        return {
            "groups": float(len(groups)),
            "verdict_passed": 0.0,
            **{f"verdict_{verdict.lower()}": count / len(every) for verdict, count in verdicts.items()},
            "rewards_clipped": sum(one.clipped for one in every) / len(every),
            "repetition_mean": sum(one.repetition for one in every) / len(every),
        } | ({"groups_without_signal": alike / len(compared)} if compared else {})
