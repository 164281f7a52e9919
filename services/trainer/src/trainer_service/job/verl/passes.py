"""Which sequences go through a model together where each row is padded to the longest of its pass. Pure."""

from collections.abc import Hashable, Sequence


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
        half = len(groups[largest]) // 2
        groups[largest : largest + 1] = [groups[largest][:half], groups[largest][half:]]
    return groups


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


def shared_rows(
    prompts: Sequence[Hashable],
    prefixes: Sequence[int],
    completions: Sequence[Sequence[int]],
    tokens: int,
    width: int,
) -> list[list[int]]:
    """The indices of sequences, in groups that share one row: a prompt, and the tree of its completions.

    `prefixes`: tokens of each prompt but its last. A row has at most `tokens`. `width`: of the model's hidden states.
    Attention in a row is computed between all of its tokens: 2 width multiply-adds a pair and layer, where a token
    that is spared is some 12 width^2. A completion joins a row where it spares more than it costs.
    """
    rows: list[list[int]] = []
    trees: list[Tree] = []
    latest: dict[Hashable, int] = {}
    for index, prompt in enumerate(prompts):
        prefix, completion, number = prefixes[index], completions[index], latest.get(prompt)
        if number is not None:
            filled, added = len(trees[number]), trees[number].lacks(completion)
            spared = prefix + len(completion) - added
        if (
            number is not None
            and prefix + filled + added <= tokens
            and 2 * filled * added <= spared * (6 * width + prefix)
        ):
            rows[number].append(index)
        else:
            number = latest[prompt] = len(rows)
            rows.append([index])
            trees.append(Tree())
        trees[number].add(completion)
    return rows


def parted(rows: Sequence[Sequence[int]], at_least: int) -> list[list[int]]:
    """As many rows or more, where there are as many sequences."""
    made = [list(row) for row in rows]
    while len(made) < at_least and max(map(len, made)) > 1:
        largest = max(range(len(made)), key=lambda number: len(made[number]))
        half = len(made[largest]) // 2
        made[largest : largest + 1] = [made[largest][:half], made[largest][half:]]
    return made
