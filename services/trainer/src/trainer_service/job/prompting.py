"""How a run's problems are put to its model, as tokens, and how tokens are read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ratchet_benchmarks import OWN_PROMPTING, Form, Prompt
from ratchet_problems import Message, Problem

_ANSWER = "ratchet-answer-5d1f0c"
"""Stands for an answer where only what comes after it is asked for."""


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

    def put(self, problem: Problem) -> Put:
        prompt = prompt_of(problem, self.form)
        return Put(problem, prompt, prompt_ids(self.tokenizer, prompt))

    def text(self, tokens: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def reply(self, messages: Sequence[Message], replies: Sequence[Message], last: int) -> Sequence[int]:
        return reply_ids(self.tokenizer, messages, replies, last)


def prompt_of(problem: Problem, form: Form) -> Prompt:
    """How training puts it to a model: as an evaluation does."""
    return OWN_PROMPTING.put(problem, form)


def prompt_ids(tokenizer: Any, prompt: Prompt) -> list[int]:
    """The tokens that a completion continues: of a chat, in the model's chat template; else those of the text."""
    if not prompt.messages:
        return list(tokenizer(prompt.text)["input_ids"])
    conversation = [{"role": message.role, "content": message.content} for message in prompt.messages]
    ids: list[int] = tokenizer.apply_chat_template(
        conversation, add_generation_prompt=True, tokenize=True, return_dict=False
    )
    return ids


def reply_ids(tokenizer: Any, messages: Sequence[Message], replies: Sequence[Message], last: int) -> list[int]:
    """The tokens between an answer to `messages` and the next answer, as the model's chat template writes them. `last`:
    the token that the answer ended with. Where the template has another end, that comes after it."""
    chat = [*messages, Message("assistant", _ANSWER), *replies]
    conversation = [{"role": message.role, "content": message.content} for message in chat]
    written = tokenizer.apply_chat_template(conversation, add_generation_prompt=True, tokenize=False)
    after = written.partition(_ANSWER)[2].removeprefix(tokenizer.decode([last]))
    return list(tokenizer(after, add_special_tokens=False)["input_ids"])


def conversation_ids(tokenizer: Any, messages: Sequence[Message], answer: str) -> list[int]:
    """The whole conversation, which a reward model scores, as the chat template writes it."""
    chat = [{"role": message.role, "content": message.content} for message in (*messages, Message("assistant", answer))]
    return list(tokenizer.apply_chat_template(chat, tokenize=True, return_dict=False))
