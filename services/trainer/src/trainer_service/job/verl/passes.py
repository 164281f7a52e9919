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


def shared_rows(
    prompts: Sequence[Hashable], prefixes: Sequence[int], completions: Sequence[int], tokens: int, width: int
) -> list[list[int]]:
    """The indices of sequences, in groups that share one row: a prompt, and completions of it one after another.

    `prefixes` and `completions`: tokens of each. A row has at most `tokens`. `width`: of the model's hidden states.
    Attention in a row is computed between all of its tokens: 2 width multiply-adds a pair and layer, where a token of
    the prompt that is spared is some 12 width^2. A completion joins a row where it spares more than it costs.
    """
    rows: list[list[int]] = []
    filled: list[int] = []
    latest: dict[Hashable, int] = {}
    for index, prompt in enumerate(prompts):
        prefix, completion, number = prefixes[index], completions[index], latest.get(prompt)
        if (
            number is not None
            and prefix + filled[number] + completion <= tokens
            and 2 * filled[number] * completion <= prefix * (6 * width + prefix)
        ):
            rows[number].append(index)
            filled[number] += completion
        else:
            latest[prompt] = len(rows)
            rows.append([index])
            filled.append(completion)
    return rows


def parted(rows: Sequence[Sequence[int]], at_least: int) -> list[list[int]]:
    """As many rows or more, where there are as many sequences."""
    made = [list(row) for row in rows]
    while len(made) < at_least and max(map(len, made)) > 1:
        largest = max(range(len(made)), key=lambda number: len(made[number]))
        half = len(made[largest]) // 2
        made[largest : largest + 1] = [made[largest][:half], made[largest][half:]]
    return made
