"""The exchange of a policy and an environment. Values: an environment's `step` gives a new episode."""

from dataclasses import dataclass, field, replace

from ratchet_environments.failures import Failures
from ratchet_environments.task import Task
from ratchet_problems import Message
from ratchet_rewards import Grade


@dataclass(frozen=True, slots=True)
class Turn:
    """An answer of the policy, what it is worth by itself, and what the environment replied. The last turn of an
    episode has no replies."""

    answer: str
    grade: Grade
    replies: tuple[Message, ...] = ()
    failures: Failures = field(default_factory=Failures)
    """For people; empty where nothing was run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended."""

    grade: Grade


@dataclass(frozen=True, slots=True)
class Episode:
    task: Task
    turns: tuple[Turn, ...] = ()
    outcome: Outcome | None = None
    """None until the episode has ended."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole chat so far: what the policy answers next, while there is no outcome."""
        said = [(Message("assistant", turn.answer), *turn.replies) for turn in self.turns]
        return sum(said, self.task.messages)

    @property
    def answer(self) -> str:
        """The policy's last; empty before the first."""
        return self.turns[-1].answer if self.turns else ""

    def go_on(self, answer: str, grade: Grade, *replies: Message, failures: Failures = Failures()) -> "Episode":
        """`grade`: the outcome, should there be no room for another answer."""
        return replace(self, turns=(*self.turns, Turn(answer, grade, replies, failures)))

    def end(self, answer: str, outcome: Outcome, failures: Failures = Failures()) -> "Episode":
        turn = Turn(answer, outcome.grade, failures=failures)
        return replace(self, turns=(*self.turns, turn), outcome=outcome)

    def cut(self) -> "Episode":
        """Ended as its last turn left it: there is no room for another answer. Asks for a turn."""
        return replace(self, outcome=self.outcome or Outcome(self.turns[-1].grade))
