"""What is made for a step: its prompts, and what their groups told."""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
    """A training prompt."""

    uid: str
    index: int
    """Of its problem."""
    place: int
    """Among those that were drawn for its step, in their order."""
    draw: Draw
    """Its step is the one that it was drawn for. Another may learn from it where samples may be two updates old."""
    version: int
    """The step after which the trainer had the weights that the engine had when it was drawn."""
    began: float = field(default_factory=time.monotonic, compare=False)

    @property
    def order(self) -> tuple[int, int]:
        """In which prompts are drawn."""
        return self.draw.step, self.place


class Drawn:
    """Prompts that were drawn for a step."""

    def __init__(self) -> None:
        self._places = 0
        self._times = Counter[str]()

    def place(self, problem_id: str) -> tuple[int, int]:
        """The place of one more prompt, and how often its problem was drawn before it."""
        place, times = self._places, self._times[problem_id]
        self._places += 1
        self._times[problem_id] += 1
        return place, times


@dataclass(slots=True)  # mutable: groups are added once their step is known
class StepSamples:
    step: int
    """The one that learns from them."""
    orders: dict[str, tuple[int, int]] = field(default_factory=dict)
    """In which its prompts were drawn, by their uids."""
    greedy: dict[str, float] = field(default_factory=dict)
    """The reward of the greedy completion of each prompt that has one, by its uid."""
    cut_off: dict[str, int] = field(default_factory=dict)
    """Episodes of a prompt whose time was over, by its uid."""
    credit: dict[str, list[tuple[range, float]]] = field(default_factory=dict)
    """Places and advantage of each answer, by `sample_key`, where credit is given by turn."""
    tally: Tally = field(default_factory=Tally)
    kept_groups: int = 0
    """Prompts whose samples are kept: the first that are drawn."""
    kept: list[tuple[Prompted, Group]] = field(default_factory=list)
    """In the order in which they were drawn."""
    began: float = math.inf
    ended: float = 0.0
    """When its first prompt was drawn, and its last group was judged; seconds, of one clock."""
    waited: float = 0.0
    """Seconds that the trainer stood still for it before the step began."""
    _evidence: list[tuple[tuple[int, int], Evidence]] = field(default_factory=list)

    def add(self, one: Prompted, group: Group, ended: float) -> None:
        """A group that ended at a time. One without samples tells nothing."""
        self.orders[one.uid], self.cut_off[one.uid] = one.order, group.cut_off
        self.kept.append((one, group))
        self.kept.sort(key=lambda kept: kept[0].order)
        del self.kept[self.kept_groups :]
        if group.samples:
            if group.greedy is not None:
                self.greedy[one.uid] = group.greedy
            self._credit(one, group)
            passed = [sample.passed for sample in group.samples]
            rewards = [sample.earned.before_length for sample in group.samples]
            self._evidence.append((one.order, Evidence.of(one.index, passed, rewards)))
        self.tally.add([sample.tallied for sample in group.samples], group.waits)
        self.began, self.ended = min(self.began, one.began), max(self.ended, ended)

    def _credit(self, one: Prompted, group: Group) -> None:
        for index, sample in enumerate(group.samples):
            for (way, places), advantage in zip(sample.played.turns, sample.advantages, strict=bool(sample.advantages)):
                self.credit.setdefault(sample_key(one.uid, index, way), []).append((places, advantage))

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
        for place, (one, group) in enumerate(self.kept):
            for index, sample in enumerate(group.samples):
                last, ways, spans = sample.played.episode.turns[-1], sample.played.trajectories, sample.played.spans
                found.append(
                    record.Sample(
                        step=self.step,
                        place=place,
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
                        policy_id=spans[0].version.policy_id,
                        tokens=sum(len(way.tokens) for way in ways),
                        truncated=sample.played.longest >= most,
                        turns=len(sample.played.answers),
                        staleness=self.step - 1 - min(span.version.step for span in spans),
                        attempt=attempt,
                        spans=tuple(record.Span(one.version.policy_id, one.version.step, one.tokens) for one in spans),
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
