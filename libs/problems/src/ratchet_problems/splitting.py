"""Splits of a set, drawn so that what belongs together stays together."""

import hashlib
from collections.abc import Iterable, Mapping

from ratchet_kit.errors import InvalidArgument
from ratchet_problems.fingerprint import fingerprint
from ratchet_problems.problem import Problem


def kin(problem: Problem) -> str:
    """Equal for problems that must be in one split: those of one structure, else those of one prompt."""
    return f"structure {problem.structure}" if problem.structure else f"prompt {fingerprint(problem)}"


def draw(kins: Iterable[str], shares: Mapping[str, float], rest: str) -> Mapping[str, str]:
    """The split of each kin; `kins` has one entry a problem, `shares` the part of all problems that a split gets.

    The same problems are drawn the same, in whatever order. Raises InvalidArgument for shares that are no parts of 1,
    and where a split gets no problem.
    """
    if any(not 0 < share < 1 for share in shares.values()) or sum(shares.values()) >= 1:
        raise InvalidArgument("shares must be above 0, and together below 1")
    sizes: dict[str, int] = {}
    for one in kins:
        sizes[one] = sizes.get(one, 0) + 1
    order = iter(sorted(sizes, key=lambda one: hashlib.sha256(one.encode()).digest()))
    total, drawn = sum(sizes.values()), dict[str, str]()
    for split, share in shares.items():
        left = round(share * total)
        for one in order:
            drawn[one] = split
            left -= sizes[one]
            if left <= 0:
                break
    drawn |= dict.fromkeys(order, rest)
    if empty := [split for split in (*shares, rest) if split not in drawn.values()]:
        raise InvalidArgument(f"{empty[0]} would have no problem: {total} problems of {len(sizes)} kinds are too few")
    return drawn
