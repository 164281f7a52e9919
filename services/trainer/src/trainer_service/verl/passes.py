"""Which sequences go through a model together where each row is padded to the longest of its pass. Pure.

Where a row can have several that do not see each other, it has trees: completions of one prompt each.
"""

from collections.abc import Hashable, Sequence
from typing import TypeVar

_T = TypeVar("_T")

SHARED_WIDTH = "ratchet_shared_width"
"""Key of a batch whose prompts are shared: the width of the model's hidden states."""
SHARED_ROWS = "ratchet_shared_rows"
"""Key of a pass: the number of sequences of each tree of each of its rows, in order."""


def passes(lengths: Sequence[int], tokens: int, at_least: int = 1) -> list[list[int]]:
    """The indices of `lengths` (tokens), the longest first, in groups of like length: rows times the longest of a group
    is at most `tokens`. A row that is longer is alone.

    `at_least`: groups, as many as the rank with the most has; there are no more than rows.
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if groups and lengths[groups[-1][0]] * (len(groups[-1]) + 1) <= tokens:
            groups[-1].append(index)
        else:
            groups.append([index])
    while len(groups) < min(at_least, len(lengths)):
        largest = max(range(len(groups)), key=lambda number: len(groups[number]))
        groups[largest : largest + 1] = _halves(groups[largest])
    return groups


def packed(lengths: Sequence[int], tokens: int, at_least: int = 1) -> list[list[list[int]]]:
    """As `passes`, where a row may have several of `lengths` (trees, say), side by side: passes of rows of indices.

    Each goes where the least room is left (best fit decreasing: Johnson et al. 1974), and no row is longer than the
    longest tree of its pass.
    """
    made: list[list[list[int]]] = []
    left = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    while left:
        width, rows, room, others = lengths[left[0]], list[list[int]](), list[int](), list[int]()
        for index in left:
            length = lengths[index]
            places = [number for number, free in enumerate(room) if free >= length]
            if places:
                number = min(places, key=room.__getitem__)
                rows[number].append(index)
                room[number] -= length
            elif not rows or width * (len(rows) + 1) <= tokens:
                rows.append([index])
                room.append(width - length)
            else:
                others.append(index)
        made.append(rows)
        left = others
    while len(made) < min(at_least, len(lengths)):
        largest = max(range(len(made)), key=lambda number: sum(map(len, made[number])))
        rows = made[largest] if len(made[largest]) > 1 else _halves(made[largest][0])
        made[largest : largest + 1] = _halves(rows)
    return made


class Tree:
    """Completions of one prompt: what several begin with is there once.

    It consists of tokens, each with the token that comes after it: the prompt's last, and those of the completions but
    their last ones. Where two completions part, the token before is there for each of them.
    """

    def __init__(self) -> None:
        self._places: dict[tuple[int, int], int] = {}
        """The place of the token before (-1: the prompt), and the token that comes after this one -> its place."""

    def __len__(self) -> int:
        return len(self._places)

    def add(self, completion: Sequence[int]) -> tuple[list[int], int]:
        """The places of its tokens, and how many of them were there already: the first ones."""
        shared, places, before = 0, list[int](), -1
        for token in completion:
            here = len(self._places)
            place = self._places.setdefault((before, token), here)
            shared += place != here
            places.append(place)
            before = place
        return places, shared

    def lacks(self, completion: Sequence[int]) -> int:
        """How many tokens it would add."""
        before = -1
        for number, token in enumerate(completion):
            place = self._places.get((before, token))
            if place is None:
                return len(completion) - number
            before = place
        return 0


def trees(
    prompts: Sequence[Hashable],
    prefixes: Sequence[int],
    completions: Sequence[Sequence[int]],
    tokens: int,
    width: int,
) -> list[list[int]]:
    """The indices of sequences, in groups that share a prompt, and the tree of its completions.

    `prefixes`: tokens of each prompt but its last. A tree has at most `tokens` with its prompt. `width`: of the model's
    hidden states. Attention is computed between all tokens of a row: 2 width multiply-adds a pair and layer, where a
    token that is spared is some 12 width^2. A completion joins a tree where it spares more than it costs in a row of
    its own.
    """
    groups: list[list[int]] = []
    grown: list[Tree] = []
    latest: dict[Hashable, int] = {}
    for index, prompt in enumerate(prompts):
        prefix, completion, number = prefixes[index], completions[index], latest.get(prompt)
        if number is not None:
            filled, added = len(grown[number]), grown[number].lacks(completion)
            spared = prefix + len(completion) - added
        if (
            number is not None
            and prefix + filled + added <= tokens
            and 2 * filled * added <= spared * (6 * width + prefix)
        ):
            groups[number].append(index)
        else:
            number = latest[prompt] = len(groups)
            groups.append([index])
            grown.append(Tree())
        grown[number].add(completion)
    return groups


def parted(groups: Sequence[Sequence[int]], at_least: int) -> list[list[int]]:
    """As many groups or more, where there are as many sequences."""
    made = [list(group) for group in groups]
    while len(made) < at_least and max(map(len, made)) > 1:
        largest = max(range(len(made)), key=lambda number: len(made[number]))
        made[largest : largest + 1] = _halves(made[largest])
    return made


def _halves(some: list[_T]) -> list[list[_T]]:
    half = len(some) // 2
    return [some[:half], some[half:]]
