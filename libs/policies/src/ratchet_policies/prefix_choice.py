"""Which of several engines with the same weights answers a prompt: the one that has its beginning in its cache, unless
that one is busier than others.

Engines are ranked by the beginning of the prompt (rendezvous hashing: Thaler and Ravishankar, 1998), so that each
caller ranks them alike, and a node that comes or goes moves only what was, or will be, its own. The first in rank whose
load is within 1.25 of the mean is taken (consistent hashing with bounded loads: Mirrokni, Thorup and Zadimoghaddam,
2018).
"""

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TypeVar

from ratchet_policies.generation import ChatPrompt, Prompt, TextPrompt, TokenPrompt

T = TypeVar("T")

BALANCE = 1.25
_CHARACTERS = 512
_TOKENS = 128


def beginning(prompt: Prompt) -> bytes:
    """The part that prompts of one conversation share: a chat's messages up to the first of the user, or a text's first
    512 characters, or 128 tokens."""
    match prompt:
        case TextPrompt(text):
            return text[:_CHARACTERS].encode()
        case TokenPrompt(ids):
            return repr(tuple(ids[:_TOKENS])).encode()
        case ChatPrompt(messages):
            users = (index for index, message in enumerate(messages) if message.role == "user")
            first = next(users, len(messages))
            return "\0".join(message.content for message in messages[: first + 1]).encode()


def ranked(key: bytes, names: Sequence[str]) -> list[int]:
    """Places in `names`, by rendezvous hashing of `key`."""
    weights = [blake2b(key + b"\0" + name.encode(), digest_size=8).digest() for name in names]
    return sorted(range(len(names)), key=weights.__getitem__)


def choose(options: Sequence[T], name: Callable[[T], str], load: Callable[[T], int], key: bytes) -> T:
    """One of `options`, of which there is at least one. `load`: sequences that it has now."""
    if len(options) == 1:
        return options[0]
    loads = [load(option) for option in options]
    most = math.ceil(BALANCE * (sum(loads) + 1) / len(options))
    order = ranked(key, [name(option) for option in options])
    return options[next(index for index in order if loads[index] < most)]
