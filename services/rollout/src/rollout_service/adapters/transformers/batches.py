"""Completions that one call of transformers' `generate` makes: it takes them together, until the last one ends.

`generate` has one way of sampling for all. So its greedy search is given scores that leave one token to each: `Draws`
draws it, by the completion's own sampling, and notes the log-prob in the distribution that it was drawn from.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteria,
    StoppingCriteriaList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from ratchet_policies import Completion, FinishReason, Sampling, TokenCandidate
from rollout_service.adapters.transformers.text import Text

_GREEDY = 1e-5
"""Temperatures below it mean 0, as in vLLM."""


class Row:
    """A completion in the making."""

    def __init__(
        self, index: int, prompt: Sequence[int], sampling: Sampling, most: int, ends: Collection[int], text: Text
    ) -> None:
        """`most`: tokens that it may have. `ends`: tokens that end it."""
        self.prompt = prompt
        self.sampling = sampling
        self.most = most
        self.ids: list[int] = []
        self.is_over = False
        self.is_unwanted = False
        """Set by whoever breaks it off, in another thread."""
        self._index = index
        self._generator: torch.Generator | None = None
        self._ends = ends
        self._text = text

    @property
    def form(self) -> tuple[object, ...]:
        """Equal where one distribution is made of scores as the other."""
        one = self.sampling
        own = one.repetition_penalty or one.presence_penalty or one.frequency_penalty or one.logit_bias
        return one.temperature, one.top_k, one.top_p, one.min_p, id(self) if own else None

    def draw_again(self, noise: Tensor) -> None:
        """Fills the noise of one draw anew, where its seed says with what."""
        if self.sampling.seed is None:
            return
        if self._generator is None:
            self._generator = torch.Generator(noise.device).manual_seed(self.sampling.seed + self._index)
        noise.exponential_(generator=self._generator)

    def take(self, token: int, log_prob: float, candidates: tuple[TokenCandidate, ...]) -> Completion:
        """The piece that the next token makes."""
        self.ids.append(token)
        is_end = token in self._ends
        text = "" if is_end else self._text.add(token)
        reason = FinishReason.UNFINISHED
        if is_end or self._text.stop:
            reason = FinishReason.STOP
        elif len(self.ids) >= self.most:
            reason = FinishReason.LENGTH
        self.is_over = reason is not FinishReason.UNFINISHED
        if self.is_over:
            text += self._text.rest()
        log_probs = (log_prob,) if self.sampling.logprobs else ()
        places = (candidates,) if candidates else ()
        return Completion(self._index, text, reason, (token,), log_probs, places, stop=self._text.stop)

    def broken_off(self) -> Completion:
        """The piece that ends it before its time."""
        self.is_over = True
        return Completion(self._index, self._text.rest(), FinishReason.ABORTED)


Tell = Callable[[Row, Completion], None]
"""Takes each piece, in the thread that computes."""


class Draws(LogitsProcessor):  # type: ignore[misc]
    """Draws a token for each row that is not over."""

    def __init__(self, tokenizer: Any, rows: Sequence[Row], tell: Tell) -> None:
        self._tokenizer = tokenizer
        self._rows = rows
        self._tell = tell

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        forms = defaultdict[object, list[int]](list)
        for place, row in enumerate(self._rows):
            if row.is_unwanted and not row.is_over:
                self._tell(row, row.broken_off())
            if not row.is_over:
                forms[row.form].append(place)
        tokens = torch.zeros(len(self._rows), dtype=torch.long, device=scores.device)
        for places in forms.values():
            tokens[places] = self._draw([self._rows[place] for place in places], scores[places].float())
        only = torch.full_like(scores, -torch.inf)
        return only.scatter_(1, tokens[:, None], 0.0)

    def _draw(self, rows: Sequence[Row], scores: Tensor) -> Tensor:
        """The batch of rows of one form."""
        log_probs = distribution(rows[0], scores).log_softmax(-1)
        if is_greedy(rows[0].sampling):
            tokens = log_probs.argmax(-1)
        else:  # the largest of p / e, e exponential, is drawn with p: the Gumbel-max trick
            noise = torch.empty_like(log_probs).exponential_()
            for place, row in enumerate(rows):
                row.draw_again(noise[place])
            tokens = (log_probs - noise.log()).argmax(-1)
        drawn = log_probs.gather(1, tokens[:, None])[:, 0].tolist()
        for row, token, log_prob, all_of_it in zip(rows, tokens.tolist(), drawn, log_probs, strict=True):
            top = row.sampling.top_logprobs
            listed = () if top is None else candidates(self._tokenizer, all_of_it, token, top)
            self._tell(row, row.take(token, log_prob, listed))
        return tokens


class Over(StoppingCriteria):  # type: ignore[misc]
    """Says which rows are over."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def __call__(self, input_ids: Tensor, scores: object, **options: object) -> Tensor:
        return torch.tensor([row.is_over for row in self._rows], device=input_ids.device)


def run(model: Any, tokenizer: Any, rows: Sequence[Row], tell: Tell) -> None:
    """Makes all completions of `rows`."""
    for row in rows:
        if row.is_unwanted:
            tell(row, row.broken_off())
    rows = [row for row in rows if not row.is_over]
    if not rows:
        return
    ids, mask = padded([row.prompt for row in rows], model.device)
    model.generate(
        ids,
        attention_mask=mask,
        generation_config=GenerationConfig(max_new_tokens=max(row.most for row in rows), pad_token_id=0),
        logits_processor=LogitsProcessorList([Draws(tokenizer, rows, tell)]),
        stopping_criteria=StoppingCriteriaList([Over(rows)]),
    )


def padded(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Prompts that end together, and where they are."""
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts], device=device)
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
    return ids, mask


def is_greedy(sampling: Sampling) -> bool:
    return sampling.temperature is not None and sampling.temperature < _GREEDY


def distribution(row: Row, scores: Tensor) -> Tensor:
    """The scores of the distribution that is drawn from, in vLLM's order: bias and penalties, temperature, filters."""
    one = row.sampling
    scores = _penalized(row, scores)
    if is_greedy(one):
        return scores
    warpers = LogitsProcessorList()
    if one.temperature not in (None, 1.0):
        warpers.append(TemperatureLogitsWarper(float(one.temperature)))
    if one.min_p:
        warpers.append(MinPLogitsWarper(one.min_p))
    if one.top_k:
        warpers.append(TopKLogitsWarper(one.top_k))
    if one.top_p not in (None, 1.0):
        warpers.append(TopPLogitsWarper(one.top_p))
    warped: Tensor = warpers(None, scores)
    return warped


def _penalized(row: Row, scores: Tensor) -> Tensor:
    one = row.sampling
    if one.logit_bias:
        scores[:, list(one.logit_bias)] += torch.tensor(list(one.logit_bias.values()), device=scores.device)
    if one.repetition_penalty not in (None, 1.0):
        seen = torch.tensor([[*row.prompt, *row.ids]], device=scores.device)
        scores = RepetitionPenaltyLogitsProcessor(float(one.repetition_penalty))(seen, scores)
    if row.ids and (one.presence_penalty or one.frequency_penalty):
        counts = torch.bincount(torch.tensor(row.ids, device=scores.device), minlength=scores.shape[1])
        scores -= (one.frequency_penalty or 0.0) * counts + (one.presence_penalty or 0.0) * (counts > 0)
    return scores


def candidates(tokenizer: Any, log_probs: Tensor, token: int, top: int) -> tuple[TokenCandidate, ...]:
    """The candidates of one place: the token itself, and the likeliest."""
    likeliest = log_probs.topk(min(top, len(log_probs))).indices.tolist()
    return tuple(TokenCandidate(one, tokenizer.decode([one]), float(log_probs[one])) for one in (token, *likeliest))
