"""Answers of a run's policy, each token of which is of known weights.

New weights may break an answer off (`RunPolicy.push` with `interrupts`). It goes on from the tokens that it has, by the
new weights, which read all of them: each token is drawn from just what the weights of its span give after what stands
before it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from ratchet_kit.errors import RatchetError
from ratchet_policies import Completion, FinishReason, Generation, Prompt, Sampling, TokenPrompt, joined, with_recovery
from trainer_service.job.policy.policy import RunPolicy
from trainer_service.job.policy.seeds import continued_seed
from trainer_service.job.policy.weight_versions import Version, WeightVersions


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens in a row that one version of the weights sampled."""

    version: Version
    tokens: int


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same, with neighbours of one version as one, and none that is empty."""
    found: list[Span] = []
    for span in spans:
        if found and found[-1].version == span.version:
            found[-1] = Span(span.version, found[-1].tokens + span.tokens)
        elif span.tokens:
            found.append(span)
    return found


@dataclass(frozen=True, slots=True)
class Answer:
    completion: Completion
    spans: Sequence[Span]
    """Weights of all its tokens."""

    def ended_at(self, tokens: int) -> "Answer":
        """The same, as if it had ended after so many tokens."""
        whole = self.completion
        completion = replace(
            whole,
            finish_reason=FinishReason.STOP,
            token_ids=whole.token_ids[:tokens],
            log_probs=whole.log_probs[:tokens],
            candidates=whole.candidates[:tokens],
        )
        ends = accumulate(span.tokens for span in self.spans)
        kept = [
            Span(one.version, min(one.tokens, tokens - end + one.tokens))
            for one, end in zip(self.spans, ends, strict=True)
        ]
        return Answer(completion, [one for one in kept if one.tokens > 0])


class Answers:
    """Draws by the weights that the engine has."""

    def __init__(self, policy: RunPolicy, sent: WeightVersions) -> None:
        self._policy = policy
        self._sent = sent

    async def draw(self, prompt: TokenPrompt, sampling: Sampling) -> list[Answer]:
        """Completions to their ends. One is still ABORTED where the engine broke it off by itself.

        Raises what `RunPolicy.generate` and `WeightVersions.restore` raise, but for weights that were replaced
        meanwhile.
        """
        version, generation = await self._generate(prompt, sampling)
        finish = partial(self._finish, prompt, sampling, version)
        return await asyncio.gather(*map(finish, generation.completions))

    async def generate(self, prompt: Prompt, sampling: Sampling) -> Generation:
        """As `draw`, each completion by one version of the weights: what was broken off stays so."""
        return (await self._generate(prompt, sampling))[1]

    async def _finish(self, prompt: TokenPrompt, sampling: Sampling, version: Version, first: Completion) -> Answer:
        pieces, spans = [first], [Span(version, len(first.token_ids))]
        seed = None if sampling.seed is None else sampling.seed + first.index
        while pieces[-1].finish_reason is FinishReason.ABORTED:
            if await self._sent.settled() == version:
                break  # by the engine itself
            made = tuple(token for piece in pieces for token in piece.token_ids)
            rest = replace(
                sampling,
                n=1,
                max_tokens=None if sampling.max_tokens is None else sampling.max_tokens - len(made),
                seed=None if seed is None else continued_seed(seed, len(made)),
            )
            version, generation = await self._generate(TokenPrompt((*prompt.ids, *made)), rest)
            pieces.append(replace(generation.completions[0], index=first.index))
            spans.append(Span(version, len(pieces[-1].token_ids)))
        return Answer(joined(pieces), merged(spans))

    async def _generate(self, prompt: Prompt, sampling: Sampling) -> tuple[Version, Generation]:
        while True:
            version = await self._sent.settled()
            try:
                return version, await self._by(version, prompt, sampling)
            except RatchetError:
                if await self._sent.settled() == version:
                    raise

    async def _by(self, version: Version, prompt: Prompt, sampling: Sampling) -> Generation:
        """These weights are sent once more if rollout-service has lost them."""
        return await with_recovery(
            lambda: self._policy.generate(prompt, sampling, version.policy_id),
            lambda error: self._sent.restore(self._policy, error, version.policy_id),
        )
