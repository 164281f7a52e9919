"""A sample of a training step, as it is kept for people: docs/samples.md."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ratchet_environments.failures import FailedTest
from trainer_service.domain.run.run import RunId

Order = tuple[int, float, int, int]
_ID = re.compile(r"(\d{1,9})-(\d{1,9})-(\d{1,9})")


@dataclass(frozen=True, slots=True)
class SampleId:
    step: int
    place: int
    """The place of its prompt in the step, in the order in which they were drawn."""
    index: int
    """From 0, among the samples of the prompt."""

    def __str__(self) -> str:
        return f"{self.step}-{self.place}-{self.index}"

    @classmethod
    def parse(cls, text: str) -> "SampleId | None":
        """None for a text that is no id."""
        match = _ID.fullmatch(text)
        return cls(*map(int, match.groups())) if match else None


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens in a row that one version of the weights sampled."""

    policy_id: str
    step: int
    """After which the trainer had these weights."""
    tokens: int


@dataclass(frozen=True, slots=True)
class Sample:
    """A row of the table of samples. Texts are clipped: docs/samples.md says to how much."""

    step: int
    place: int
    index: int
    problem_id: str
    prompt: str
    """The text of the tokens that the policy was given."""
    completion: str
    """All that came after the prompt: of an episode all answers and the replies between them."""
    verdict: str
    """The last answer's, without its prefix: "PASSED"."""
    tests_passed: int
    tests_total: int
    detail: str
    failed_tests: tuple[FailedTest, ...]
    """Without those that are held out."""
    held_out_failed: int
    stderr: str
    reward: float
    """As it was learned from."""
    components: Mapping[str, float]
    """Component of the reward -> value, as measured."""
    advantage: float | None
    """Mean over its tokens; None: nothing was learned from it."""
    policy_id: str
    """The weights that sampled its first token."""
    tokens: int
    """New ones."""
    truncated: bool
    """It was cut off at max_response_tokens."""
    turns: int
    """Answers of the episode."""
    staleness: int
    """Updates of the weights since its oldest token was sampled, when it was learned from."""
    attempt: int
    spans: tuple[Span, ...] = ()
    """The weights of all its tokens that were learned from, in their order; empty where an earlier release kept it."""
    recorded: bool = False
    """The record of its episode is kept."""
    record: bytes = field(default=b"", repr=False)
    """Packed by `ratchet_episodes.record`: on its way to the store, and where it was asked for."""

    @property
    def id(self) -> SampleId:
        return SampleId(self.step, self.place, self.index)

    @property
    def order(self) -> Order:
        """The newest step first, and of a step the lowest reward."""
        return (-self.step, self.reward, self.place, self.index)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The samples that somebody asks for; a field that is None or empty asks for any."""

    step: int | None = None
    problem_id: str = ""
    verdict: str = ""
    below: float | None = None
    """Only rewards below it."""
    id: SampleId | None = None

    def takes(self, problem_id: str, verdict: str, reward: float, place: int, index: int) -> bool:
        return (
            (self.id is None or (place, index) == (self.id.place, self.id.index))
            and (not self.problem_id or problem_id == self.problem_id)
            and (not self.verdict or verdict == self.verdict)
            and (self.below is None or reward < self.below)
        )


class SampleStore(Protocol):
    """The samples that jobs have kept. Every method raises Unavailable when the artifact store cannot be reached."""

    async def steps(self, id: RunId) -> Sequence[int]:
        """Steps that have samples, in any order; none for a run without."""
        ...

    async def of_step(self, id: RunId, step: int, wanted: Wanted, *, records: bool = False) -> Sequence[Sample]:
        """In any order; none where the step has none. `records`: with those of episodes."""
        ...

    async def with_samples(self) -> Sequence[RunId]:
        """Runs that have some."""
        ...

    async def remove(self, id: RunId) -> None:
        """Deletes the samples of a run. A run without is fine."""
        ...
