"""Which sequences go through a model together where each is padded to the longest of its pass. Pure."""

from collections.abc import Sequence


def passes(lengths: Sequence[int], tokens: int, at_least: int = 1) -> list[list[int]]:
    """The indices of `lengths` (tokens), the longest first, in groups of like length: rows times the longest of a group
    is at most `tokens`. A sequence that is longer is alone.

    `at_least`: groups, as many as the rank with the most has; there are no more than sequences.
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
