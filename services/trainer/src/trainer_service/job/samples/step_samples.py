"""What is made for a step: its prompts, and what their groups told."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from trainer_service.job.samples.curriculum import Evidence
from trainer_service.job.samples.groups import Draw, Group
from trainer_service.job.samples.tally import Tally


@dataclass(frozen=True, slots=True)
class Prompted:
    """A training prompt, and the weights that answer it: those that the engine had when it was drawn."""

    uid: str
    index: int
    """Of its problem."""
    place: int
    """Among the prompts of its step, in the order in which they were drawn."""
    draw: Draw
    """Its step is the one that learns from it."""
    version: int
    """The step after which the trainer had the weights. Samples are stale where that is not the one before."""


@dataclass(slots=True)  # mutable: written by the background loop, read by the main thread once its step learns from it
class StepSamples:
    places: dict[str, int] = field(default_factory=dict)
    """Of prompts, by their uids."""
    greedy: dict[str, float] = field(default_factory=dict)
    """The reward of the greedy completion of each prompt that has one, by its uid."""
    running: list[Future[None]] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    first: tuple[str, Group] | None = None
    """The first prompt's problem and group."""
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    """When its last group was judged; seconds, of the same clock."""
    waited: float = 0.0
    """Seconds that the trainer stood still for it before the step began."""
    _drawn: Counter[str] = field(default_factory=Counter)
    _evidence: list[tuple[int, Evidence]] = field(default_factory=list)

    def place(self, uid: str, problem_id: str) -> tuple[int, int]:
        """Of one more prompt: its place, and how often its problem was drawn before it."""
        place, times = len(self.places), self._drawn[problem_id]
        self.places[uid] = place
        self._drawn[problem_id] += 1
        return place, times

    def add(self, one: Prompted, group: Group) -> None:
        """A group that has ended. One without samples tells nothing."""
        if one.place == 0:
            self.first = (one.draw.problem.id, group)
        if group.samples:
            if group.greedy is not None:
                self.greedy[one.uid] = group.greedy
            passed = [sample.passed for sample in group.samples]
            rewards = [sample.earned.before_length for sample in group.samples]
            self._evidence.append((one.place, Evidence.of(one.index, passed, rewards)))
        self.tally.add([sample.tallied for sample in group.samples], group.waits)
        self.ended = time.monotonic()

    @property
    def evidence(self) -> list[Evidence]:
        """What a curriculum goes by, in the order in which the prompts were drawn, whichever ended first."""
        return [evidence for _, evidence in sorted(self._evidence, key=lambda added: added[0])]

    @property
    def greedy_mean(self) -> float:
        """Of the prompts that have one."""
        return fmean(self.greedy.values()) if self.greedy else 0.0

    def overlapped(self, waited: float) -> float:
        """Seconds of its making that the trainer did not stand still for. `waited`: those that it did in the step."""
        return max(0.0, self.ended - self.began - self.waited - waited)

    def shown(self, text: Callable[[Sequence[int]], str]) -> list[dict[str, Any]]:
        """The samples of the first prompt, for people to read."""
        if self.first is None:
            return []
        problem, group = self.first
        prompt = text(group.prompt)
        return [
            {
                "problem": problem,
                "prompt": prompt,
                "completion": text(sample.played.tokens),
                "verdict": sample.verdict,
                "reward": sample.earned.reward,
            }
            for sample in group.samples
        ]
