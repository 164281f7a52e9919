"""An episode between the policy and the run's environment, as the tokens that are learned from.

Tokens in, tokens out: what was sampled stays as it was sampled, and the environment's replies, as the chat template
writes them, stand between. The next answer goes on from exactly these, so the policy's probabilities are those of what
it saw.
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from ratchet_environments import Environment, Episode, Task
from ratchet_policies import BrokenOff, FinishReason, Sampling, TokenPrompt
from ratchet_problems.prompting import Prompt
from trainer_service.job.policy.seeds import turn_seed
from trainer_service.job.reward.rewarding import Graded
from trainer_service.job.samples.answers import Answer, Span, merged
from trainer_service.job.samples.prompting import Prompting, Put

Draw = Callable[[TokenPrompt, Sampling], Awaitable[Sequence[Answer]]]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A prompt and all that came after it, as tokens. Log-probs are natural, one a token."""

    prompt: Sequence[int]
    tokens: Sequence[int]
    """Of answers and of what stands between them."""
    log_probs: Sequence[float]
    """0 for what stands between."""
    mask: Sequence[int]
    """1 for the tokens of the policy that are learned from here, else 0."""
    ends: Sequence[int]
    """The place of the last token of each answer that is learned from."""
    spans: Sequence[Span]
    """Weights of the tokens that are learned from here."""
    calls: Sequence[int]
    """The place of each answer that is learned from among all answers of the episode."""

    @property
    def oldest(self) -> int:
        """The step after which the trainer had the oldest weights that sampled some of it."""
        return min(span.version.step for span in self.spans)

    @property
    def answers(self) -> list[list[int]]:
        """The policy's tokens of each."""
        return [[self.tokens[place] for place in span if self.mask[place]] for span in self.places]

    @property
    def places(self) -> list[range]:
        """Places of each answer's tokens, with what stands before it."""
        starts = [0, *(end + 1 for end in self.ends[:-1])]
        return [range(start, end + 1) for start, end in zip(starts, self.ends, strict=True)]


@dataclass(frozen=True, slots=True)
class Played:
    """An episode as it is learned from."""

    episode: Episode
    """It has ended."""
    trajectories: Sequence[Trajectory]
    """One; several where a program rewrote what was said. A token of the policy is learned from in one of them."""
    kept: Callable[[], bytes] = bytes
    """The record of an episode on a task folder, packed; takes a while. Empty for others."""

    @property
    def answers(self) -> list[list[int]]:
        """The policy's tokens of each."""
        return [answer for one in self.trajectories for answer in one.answers]

    @property
    def turns(self) -> list[tuple[int, range]]:
        """The trajectory of each answer that is learned from, and its places there, in the order of the episode."""
        found = [
            (call, index, places)
            for index, one in enumerate(self.trajectories)
            for call, places in zip(one.calls, one.places, strict=True)
        ]
        return [(index, places) for _, index, places in sorted(found, key=lambda one: one[0])]

    @property
    def spans(self) -> list[Span]:
        """Weights of all its tokens that are learned from."""
        return merged(span for one in self.trajectories for span in one.spans)

    @property
    def longest(self) -> int:
        """Tokens after the prompt."""
        return max(len(one.tokens) for one in self.trajectories)

    @property
    def graded(self) -> list[Graded]:
        """Each answer; only the last has the length that is punished, which is that of all."""
        *early, last = self.episode.turns
        return [*(Graded(one.answer, one.grade) for one in early), Graded(last.answer, last.grade, self.longest)]


class Player:
    """`max_tokens`: of all answers and replies of an episode; what has no room ends it."""

    def __init__(self, environment: Environment, prompting: Prompting, max_tokens: int) -> None:
        self._environment = environment
        self._prompting = prompting
        self._max_tokens = max_tokens

    async def play(self, draw: Draw, put: Put, first: Answer, sampling: Sampling) -> Played:
        """`first`: the first answer to what was put; `draw` draws the later ones by `sampling`, each with a seed of its
        own.

        Raises BrokenOff where the engine did not answer to the end, Unavailable where the platform could not judge an
        answer, InvalidArgument where the problem's tests can judge no program; else what `draw` raises.
        """
        tokens: list[int] = []
        log_probs: list[float] = []
        mask: list[int] = []
        ends: list[int] = []
        spans: list[Span] = []
        episode, answered = await self._environment.start(Task.of(put.problem)), first
        while True:
            completion = answered.completion
            if completion.finish_reason is FinishReason.ABORTED or not completion.token_ids:
                many = len(completion.token_ids)
                raise BrokenOff(f"{put.problem.id}: the engine broke a completion off after {many} tokens")
            answered = self._stopped(answered, put.prompt)
            completion = answered.completion
            tokens += completion.token_ids
            log_probs += completion.log_probs
            mask += [1] * len(completion.token_ids)
            ends.append(len(tokens) - 1)
            spans += answered.spans
            answer = put.prompt.cut(self._prompting.text(completion.token_ids))
            episode = await self._environment.step(episode, answer)
            if episode.outcome is not None:
                break
            between = self._prompting.reply(episode.task.messages, episode.turns[-1].replies, completion.token_ids)
            room = self._max_tokens - len(tokens) - len(between)
            if room < 1:
                episode = episode.cut()
                break
            tokens += between
            log_probs += [0.0] * len(between)
            mask += [0] * len(between)
            seed = turn_seed(sampling.seed or 0, len(ends))
            prompt = TokenPrompt((*put.tokens, *tokens))
            [answered] = await draw(prompt, replace(sampling, seed=seed, max_tokens=room))
        calls = range(len(ends))
        return Played(episode, [Trajectory(put.tokens, tokens, log_probs, mask, ends, merged(spans), calls)])

    def _stopped(self, answer: Answer, prompt: Prompt) -> Answer:
        """An engine looks for `stop` in what it makes at once: one that an update has parted ends the answer here."""
        if len(answer.spans) < 2 or not prompt.stop:
            return answer
        ids = answer.completion.token_ids

        def has_stop(tokens: int) -> bool:
            text = self._prompting.text(ids[:tokens])
            return prompt.cut(text) != text

        tokens = bisect_left(range(len(ids)), True, key=has_stop)
        return answer.ended_at(tokens) if tokens < len(ids) else answer
