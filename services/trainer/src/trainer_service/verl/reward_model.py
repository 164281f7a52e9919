"""A reward model: a sequence classifier with one output, which scores an answer after its prompt.

Both stand in the chat template of the model's own tokenizer, as a whole conversation, when it is trained (driver) and
when it scores here.
"""

import asyncio
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from ratchet_kit.errors import InvalidArgument
from ratchet_kit.logs import get_logger
from ratchet_problems import Message, Problem
from ratchet_problems.prompting import OWN_PROMPTING
from trainer_service.domain.create.memory import SCORED_TOKENS
from trainer_service.job.run.config import JobConfig
from trainer_service.job.samples.prompting import conversation_ids

log = get_logger(__name__)


class RewardModel:
    """In this process, in the precision of training, on the device of the job: on CUDA the first GPU that it sees."""

    def __init__(self, job: JobConfig) -> None:
        self._folder = Path(job.reward_model_path)
        self._dtype = getattr(torch, job.dtype)
        self._device = "cuda" if job.is_cuda and torch.cuda.is_available() else "cpu"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ratchet-reward-model")

    def load(self) -> None:
        """Before it scores. Raises InvalidArgument where it cannot: it is no such model, or lacks weights."""
        kind = "a sequence classifier with one output"
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(self._folder)
            model, found = AutoModelForSequenceClassification.from_pretrained(
                self._folder, dtype=self._dtype, output_loading_info=True
            )
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise InvalidArgument(f"the reward model in {self._folder} cannot be loaded: {error}") from error
        if missing := sorted(found["missing_keys"]):
            raise InvalidArgument(
                f"the reward model in {self._folder} has no weights of {missing[0]}: it is not {kind}"
            )
        if model.config.num_labels != 1:
            raise InvalidArgument(f"the reward model in {self._folder} has {model.config.num_labels} outputs, not one")
        if not self._tokenizer.chat_template:
            raise InvalidArgument(f"the reward model in {self._folder} has no chat template")
        config = model.config.get_text_config()
        vocabulary = model.get_input_embeddings().weight.shape[0]
        written = {*self._tokenizer.get_vocab().values()} - {self._tokenizer.pad_token_id}  # which no answer has
        if max(written) >= vocabulary:
            raise InvalidArgument(
                f"the reward model in {self._folder} knows {vocabulary} tokens, and its tokenizer writes"
                f" {max(written) + 1}: they do not belong together"
            )
        self._pad = config.pad_token_id
        self._room = getattr(config, "max_position_embeddings", None) or math.inf
        for parameter in model.parameters():  # else it is the mapped file, with whatever is written to it later
            parameter.data = parameter.data.clone()
        self._model = model.to(self._device).eval()
        log.info("reward_model.loaded", folder=str(self._folder), device=self._device)

    async def scores(self, problem: Problem, answers: Sequence[str]) -> Sequence[float]:
        """In order, as the model gives them; NaN for an answer that it has no room for."""
        messages = OWN_PROMPTING.put(replace(problem, examples=()), "chat").messages
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._scores, messages, answers)

    def _scores(self, messages: Sequence[Message], answers: Sequence[str]) -> list[float]:
        rows = [conversation_ids(self._tokenizer, messages, answer) for answer in answers]
        scores = [math.nan] * len(rows)
        for places in _passes([len(row) for row in rows], self._room, padded=self._pad is not None):
            for place, score in zip(places, self._forward([rows[place] for place in places]), strict=True):
                scores[place] = score
        return scores

    @torch.inference_mode()
    def _forward(self, rows: Sequence[Sequence[int]]) -> list[float]:
        """Padded on the right, where no token looks. The model takes its score at the last token that is no padding."""
        longest = max(len(row) for row in rows)
        tokens = torch.full((len(rows), longest), self._pad or 0)
        mask = torch.zeros((len(rows), longest), dtype=torch.long)
        for place, row in enumerate(rows):
            tokens[place, : len(row)] = torch.tensor(row)
            mask[place, : len(row)] = 1
        found = self._model(input_ids=tokens.to(self._device), attention_mask=mask.to(self._device))
        return [float(score) for score in found.logits[:, 0].float().cpu()]


def _passes(lengths: Sequence[int], room: float, padded: bool) -> Iterator[list[int]]:
    """The places of the rows of each pass: of those that have room, in order, and so the same whatever else is scored.
    A pass has at most SCORED_TOKENS, padding included, but always a row; and one alone where nothing can pad it."""
    places: list[int] = []
    longest = 0
    for place, length in enumerate(lengths):
        if length > room:
            continue
        longest = max(longest, length)
        if places and (not padded or longest * (len(places) + 1) > SCORED_TOKENS):
            yield places
            places, longest = [], length
        places.append(place)
    if places:
        yield places
