"""What is made for a step: its prompts, and what their groups told."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from statistics import fmean

from ratchet_kit.text import clip
from trainer_service.domain.run import sample as record
from trainer_service.job.samples.curriculum import Evidence
from trainer_service.job.samples.groups import Draw, Group
from trainer_service.job.samples.tally import Tally

LONGEST = 32 << 10
"""Bytes of a prompt, and of a completion, that are kept."""
LONGEST_DETAIL = 1000
_BETWEEN = "\n\n--- the program rewrote what was said ---\n\n"
"""Between the trajectories of an episode."""


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
    cut_off: dict[str, int] = field(default_factory=dict)
    """Episodes of a prompt whose time was over, by its uid."""
    running: list[Future[None]] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    kept_groups: int = 0
    """Prompts whose samples are kept: the first that are drawn."""
    kept: list[tuple[Prompted, Group]] = field(default_factory=list)
    """In the order in which they ended."""
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
        self.cut_off[one.uid] = group.cut_off
        if one.place < self.kept_groups:
            self.kept.append((one, group))
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

    def records(
        self, text: Callable[[Sequence[int]], str], advantages: Mapping[str, float], attempt: int, most: int
    ) -> list[record.Sample]:
        """The samples that are kept, with their texts. `advantages`: by `sample_key`; `most`: of their tokens."""
        found = []
        for one, group in sorted(self.kept, key=lambda kept: kept[0].place):
            for index, sample in enumerate(group.samples):
                last, ways = sample.played.episode.turns[-1], sample.played.trajectories
                found.append(
                    record.Sample(
                        step=one.draw.step,
                        place=one.place,
                        index=index,
                        problem_id=one.draw.problem.id,
                        prompt=_clipped(text(ways[0].prompt)),
                        completion=_clipped(_BETWEEN.join(text(way.tokens) for way in ways)),
                        verdict=last.grade.verdict,
                        tests_passed=last.grade.tests_passed,
                        tests_total=last.grade.tests_total,
                        detail=clip(last.grade.detail, LONGEST_DETAIL),
                        failed_tests=last.failures.tests,
                        held_out_failed=last.failures.held_out,
                        stderr=last.failures.stderr,
                        reward=sample.earned.reward,
                        components=dict(sample.earned.values),
                        advantage=advantages.get(sample_key(one.uid, index)),
                        policy_id=one.draw.policy_id,
                        tokens=sum(len(way.tokens) for way in ways),
                        truncated=sample.played.longest >= most,
                        turns=len(sample.played.answers),
                        staleness=one.draw.step - 1 - one.version,
                        attempt=attempt,
                        recorded=bool(kept := sample.played.kept()),
                        record=kept,
                    )
                )
        return found


def sample_key(uid: str, index: int, trajectory: int = 0) -> str:
    """The key of a sample's trajectory in verl's queue: `<uid>_<session>_<index>`."""
    return f"{uid}_{index}_{trajectory}"


def _clipped(text: str) -> str:
    return clip(text, LONGEST)
