"""How a run's problems are put to its model, as tokens, and how tokens are read."""

import string
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ratchet_problems import Message, Problem, rendering
from ratchet_problems.messages import records
from ratchet_problems.prompting import OWN_PROMPTING, Form, Prompt
from trainer_service.job.samples.endings import Ending, ending, refusals, rendered

_PLAIN = "".join(sorted({*string.punctuation, " "} - {*"%$\\'"}))


@dataclass(frozen=True, slots=True)
class Put:
    """A problem as the model is given it."""

    problem: Problem
    prompt: Prompt
    tokens: Sequence[int]


@dataclass(frozen=True, slots=True)
class Prompting:
    tokenizer: Any
    """Of Hugging Face."""
    form: Form
    ending: Ending

    @classmethod
    def of(cls, tokenizer: Any, data: Any) -> "Prompting":
        """`data`: the part of verl's config. Raises InvalidArgument where nothing ends an answer."""
        return cls(tokenizer, data.prompt_form, ending(tokenizer, data.stops, data.prompt_form))

    def put(self, problem: Problem) -> Put:
        prompt = prompt_of(problem, self.form)
        return Put(problem, prompt, prompt_ids(self.tokenizer, prompt))

    def text(self, tokens: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def whole_text(self, tokens: Sequence[int]) -> str:
        """With the special tokens, as the model sees or writes them."""
        text: str = self.tokenizer.decode(tokens)
        return text

    def reply(self, messages: Sequence[Message], replies: Sequence[Message], answer: Sequence[int]) -> Sequence[int]:
        return reply_ids(self.tokenizer, messages, replies, answer, self.ending)


def setting_of(system: str) -> str:
    """A message of the system as a setting of verl's, percent-encoded: Hydra reads backslashes, OmegaConf `${`."""
    return urllib.parse.quote(system, safe=_PLAIN)


def system_of(setting: str) -> str:
    return urllib.parse.unquote(setting)


def prompt_of(problem: Problem, form: Form) -> Prompt:
    """How training puts it to a model: as an evaluation does."""
    return OWN_PROMPTING.put(problem, form)


def prompt_ids(tokenizer: Any, prompt: Prompt) -> list[int]:
    """The tokens that a completion continues: of a chat, in the model's chat template; else those of the text."""
    if not prompt.messages:
        return list(tokenizer(prompt.text)["input_ids"])
    return rendering.tokens(tokenizer, rendered(tokenizer, prompt.messages, answering=True))


def reply_ids(
    tokenizer: Any, messages: Sequence[Message], replies: Sequence[Message], answer: Sequence[int], ending: Ending
) -> list[int]:
    """The tokens between an answer (its tokens) to `messages` and the next answer, as the model's chat template writes
    them. Where the answer ended in another way than the template's, that comes after it. Raises InvalidArgument where
    the template loses the answer's place."""
    chat = records([*messages, Message("assistant", "answer"), *replies])
    stops = {*ending.written[-1:], *ending.tokens[-1:]}
    with refusals([*messages, *replies]):
        return rendering.following(tokenizer, chat, len(messages) + 1, answer, stops)


def conversation_ids(tokenizer: Any, messages: Sequence[Message], answer: str) -> list[int]:
    """The whole conversation, which a reward model scores, as the chat template writes it."""
    whole = rendered(tokenizer, [*messages, Message("assistant", answer)], answering=False)
    return rendering.tokens(tokenizer, whole)
