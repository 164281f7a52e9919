"""What a step's completions were like, counted for the guards of the run: verdicts, repetition, equal rewards."""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from trainer_service.job.reward.rewarding import Earned, metric

RUN = 4
"""Tokens of what is counted as a repetition."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Of one episode."""

    count: int
    first_passed: bool | None = None
    """Its first answer passed all tests; None where only the end is judged."""


@dataclass(frozen=True, slots=True)
class Tallied:
    """One completion, or episode."""

    verdict: str
    """The sandbox's, without its prefix."""
    earned: Earned
    repetition: float
    turns: Turns | None = None
    """Where its environment has several."""
    second_hand: bool | None = None
    """It passes the tests that earn nothing; None: it was not judged by them."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Of one prompt, seconds: prompts wait side by side, so that they add up to more than the step."""

    generate: float
    judge: float


def _means(waits: Sequence[Waits]) -> dict[str, float]:
    if not waits:
        return {}
    return {
        "prompt_generate_s_mean": fmean(one.generate for one in waits),
        "prompt_judge_s_mean": fmean(one.judge for one in waits),
    }


def repetition(tokens: Sequence[int]) -> float:
    """The share of its runs of four tokens that were in it before: seq-rep-4 (arXiv:1908.04319, section 5)."""
    runs = [tuple(tokens[start : start + RUN]) for start in range(len(tokens) - RUN + 1)]
    return 1 - len(set(runs)) / len(runs) if runs else 0.0


def components(earned: Sequence[Earned]) -> dict[str, float]:
    """The mean value of each component of the reward, over the completions that it counts for."""
    names = dict.fromkeys(name for one in earned for name in one.values)
    return {
        f"component_{metric(name)}": fmean(one.values[name] for one in earned if name in one.values) for name in names
    }


def of_turns(episodes: Sequence[Turns]) -> dict[str, float]:
    """Of one episode or more."""
    first = [one.first_passed for one in episodes if one.first_passed is not None]
    mean = {"turns_mean": fmean(one.count for one in episodes)}
    return mean | ({"first_answers_passed": fmean(first)} if first else {})


def of_second_hand(groups: Sequence[Sequence[Tallied]]) -> dict[str, float]:
    """The share of programs that pass what is rewarded and fail the tests that earn nothing, and the number of prompts
    that they answer; empty where none was judged."""
    judged = [[one.second_hand for one in group if one.second_hand is not None] for group in groups]
    every = [passes for some in judged for passes in some]
    if not every:
        return {}
    return {"second_hand_failed": every.count(False) / len(every), "second_hand_groups": float(sum(map(bool, judged)))}


class Tally:
    """Counts the groups of a step. Groups are added by one thread and taken by another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: list[Sequence[Tallied]] = []
        self._waits: list[Waits] = []

    def add(self, group: Sequence[Tallied], waits: Waits | None = None) -> None:
        """The completions of one prompt, without those that the platform failed."""
        with self._lock:
            self._groups.append(group)
            if waits is not None:
                self._waits.append(waits)

    def take(self) -> dict[str, float]:
        """The metrics of what was added since the last time; none where nothing was. Shares are of completions,
        `groups_without_signal` of groups that have more than one."""
        with self._lock:
            groups, self._groups = [group for group in self._groups if group], []
            waits, self._waits = self._waits, []
        every = [one for group in groups for one in group]
        if not every:
            return {}
        verdicts = Counter(one.verdict for one in every)
        compared = [group for group in groups if len(group) > 1]
        turns = [one.turns for one in every if one.turns]
        punished = sum(one.earned.before_length - one.earned.reward for one in every)
        alike = sum(len({one.earned.reward for one in group}) == 1 for group in compared)
        return {
            "groups": float(len(groups)),
            "verdict_passed": 0.0,
            **{f"verdict_{verdict.lower()}": count / len(every) for verdict, count in verdicts.items()},
            "rewards_clipped": sum(one.earned.cut for one in every) / len(every),
            "vetoed": sum(one.earned.vetoed for one in every) / len(every),
            "score_mean": fmean(one.earned.score for one in every),
            **components([one.earned for one in every]),
            "repetition_mean": sum(one.repetition for one in every) / len(every),
            **_means(waits),
            **({"groups_without_signal": alike / len(compared)} if compared else {}),
            **(of_turns(turns) if turns else {}),
            **of_second_hand(groups),
            **({"overlong_mean": punished / len(every)} if punished else {}),
        }
