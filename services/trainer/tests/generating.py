"""What groups are made with: a policy, an environment and a measurer over memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ratchet_environments import Episode, Outcome, Task
from ratchet_environments.own import Sample
from ratchet_kit.errors import RatchetError, Unavailable
from ratchet_policies import Completion, FinishReason, Generation, Prompt, Sampling, TokenPrompt
from ratchet_problems import CallTest, Message, Problem
from ratchet_problems.prompting import Prompt as Text
from ratchet_rewards import Component, Grade, Measured, Reward
from trainer_service.job.policy.weight_versions import WeightVersions
from trainer_service.job.run.background import Background
from trainer_service.job.run.config import JobConfig
from trainer_service.job.samples.groups import Groups
from trainer_service.job.samples.prompting import Put

LOUD = Reward(components=(Component("loud", program="one's own"),), combination="weighted_sum")
PROBLEMS = [Problem(id=f"p{i}", prompt="Return x.", entry_point="f", tests=(CallTest.of([i], i),)) for i in range(3)]


GREEDY = 9
"""What a policy answers at temperature 0."""


@dataclass
class Policy:
    """Answers with the tokens 1..n of a sample's index; raises `error` until the weights are pushed. Those in `broken`
    were broken off, those in `empty` have no token."""

    engines: int = 1
    weights: str | None = "sha256:mine"
    error: RatchetError | None = None
    broken: set[int] = field(default_factory=set)
    empty: set[int] = field(default_factory=set)
    seeds: list[int | None] = field(default_factory=list)
    stops: set[tuple[str, ...]] = field(default_factory=set)
    temperatures: set[float | None] = field(default_factory=set)
    later_seeds: list[int | None] = field(default_factory=list)
    rooms: list[int | None] = field(default_factory=list)

    async def generate(self, prompt: Prompt, sampling: Sampling, policy_id: str) -> Generation:
        if self.error is not None:
            raise self.error
        assert isinstance(prompt, TokenPrompt)
        if len(prompt.ids) > 2:
            return self.later(prompt.ids, sampling)
        self.seeds.append(sampling.seed)
        self.stops.add(sampling.stop)
        self.temperatures.add(sampling.temperature)
        if sampling.temperature == 0:
            return Generation((self._completion(GREEDY),), policy_id, len(prompt.ids))
        return Generation(tuple(map(self._completion, range(sampling.n))), policy_id, len(prompt.ids))

    def _completion(self, index: int) -> Completion:
        reason = FinishReason.ABORTED if index in self.broken else FinishReason.STOP
        tokens = () if index in self.empty else (index,)
        return Completion(index, "", reason, tokens, tuple(-float(token) for token in tokens))

    def later(self, prompt: Sequence[int], sampling: Sampling) -> Generation:
        """An answer after a reply: its tokens are 10 more than the one before it."""
        self.later_seeds.append(sampling.seed)
        self.rooms.append(sampling.max_tokens)
        tokens = (prompt[-3] + 10,)
        reason = FinishReason.ABORTED if tokens[0] in self.broken else FinishReason.STOP
        return Generation((Completion(0, "", reason, tokens, (-float(tokens[0]),)),), "sha256:mine", len(prompt))

    async def loaded_weights(self) -> str | None:
        return self.weights


@dataclass
class Environment:
    """Passes all answers, each in the last of `turns`; cannot judge those in `faulty`."""

    faulty: set[str] = field(default_factory=set)
    turns: int = 1
    answers: list[str] = field(default_factory=list)

    async def start(self, task: Task) -> Episode:
        return Episode(task)

    async def step(self, episode: Episode, answer: str) -> Episode:
        self.answers.append(answer)
        if answer in self.faulty:
            raise Unavailable("the lane died")
        if len(episode.turns) + 1 < self.turns:
            return episode.go_on(answer, Grade("FAILED", 0, 1), Message("user", "again"))
        return episode.end(answer, Outcome(Grade("PASSED", 1, 1)))


@dataclass
class Measurer:
    """An answer's value is its token, or that of `values`; None is no number."""

    values: dict[str, float | None] = field(default_factory=dict)
    error: RatchetError | None = None

    async def measure(self, task: Task, samples: Sequence[Sample]) -> list[Measured | None]:
        if self.error is not None:
            raise self.error
        found = [self.values.get(sample.answer, float(sample.answer)) for sample in samples]
        return [None if value is None else Measured({"loud": value}, passed=True) for value in found]


@dataclass
class Prompts:
    """Puts all problems alike; reads a token as its number, or as `words`."""

    prompt: Text = field(default_factory=lambda: Text(text="Return x.\n"))
    words: str = ""
    between: Sequence[int] = (5, 6)

    def put(self, problem: Problem) -> Put:
        return Put(problem, self.prompt, [7, 8])

    def text(self, tokens: Sequence[int]) -> str:
        return self.words or str(tokens[0])

    def reply(self, messages: Sequence[Message], replies: Sequence[Message], answer: Sequence[int]) -> Sequence[int]:
        return self.between


@dataclass(frozen=True)
class Making:
    """Groups, and what makes them."""

    job: JobConfig
    background: Background
    sent: WeightVersions
    groups: Groups
