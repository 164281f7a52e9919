"""Arguments to try composed problems on: edge cases first, then random ones."""

from collections.abc import Callable
from functools import lru_cache
from random import Random

Arguments = tuple[object, ...]

_LETTERS = "aabbceeosABES"
_CHARACTERS = _LETTERS + "0172 "


def _numbers(rng: Random, low: int = 0) -> list[int]:
    return [rng.randint(-9, 12) for _ in range(rng.randint(low, 7))]


def _string(rng: Random) -> str:
    if rng.random() < 0.15:
        return str(rng.randint(0, 99))
    word = "".join(rng.choice(_LETTERS) for _ in range(rng.randint(1, 6)))
    return rng.choice((word, word.lower(), word.lower(), word.upper()))


def _strings(rng: Random) -> list[str]:
    words = [_string(rng) for _ in range(rng.randint(2, 7))]
    return words + rng.sample(words, 1)


def _dictionary(rng: Random) -> dict[str, int]:
    return {_string(rng): rng.randint(-9, 12) for _ in range(rng.randint(2, 6))}


_EDGES: dict[str, list[Arguments]] = {
    "numbers": [([],), ([0],), ([3, 3, -4, 8],), ([-2, -7],)],
    "digits": [(0,), (7,), (1024,), (33356,)],
    "range": [(0,), (1,), (2,), (10,)],
    "values": [({},), ({"a": 0},), ({"a": 3, "b": 3, "e": -4},)],
    "sums": [([], [1]), ([2], [-2]), ([1, 2, 3], [3, 2, 3])],
    "characters": [("",), ("a",), ("Abba 12",)],
    "strings": [([],), ([""],), (["a", "Be", "a", "CAB"],)],
    "words": [("",), ("a",), ("  Abe saw  12 bees ",)],
    "keys": [({},), ({"a": 1},), ({"Abe": 1, "bee": 2, "12": 3},)],
}
_RANDOM: dict[str, Callable[[Random], Arguments]] = {
    "numbers": lambda rng: (_numbers(rng, 2),),
    "digits": lambda rng: (rng.randint(10, 10 ** rng.randint(3, 7)),),
    "range": lambda rng: (rng.randint(3, 24),),
    "values": lambda rng: (_dictionary(rng),),
    "sums": lambda rng: (_numbers(rng, 2), _numbers(rng, 2)),
    "characters": lambda rng: ("".join(rng.choice(_CHARACTERS) for _ in range(rng.randint(3, 12))),),
    "strings": lambda rng: (_strings(rng),),
    "words": lambda rng: (" ".join(_strings(rng)),),
    "keys": lambda rng: (_dictionary(rng),),
}


def edge_cases(source: str) -> tuple[Arguments, ...]:
    """Empty, smallest and repeated values for a source of elements."""
    return tuple(_EDGES[source])


@lru_cache
def random_arguments(source: str, count: int) -> tuple[Arguments, ...]:
    """The same ones at every call: they depend on the source's name alone."""
    rng = Random(f"inputs/{source}")
    return tuple(_RANDOM[source](rng) for _ in range(count))
