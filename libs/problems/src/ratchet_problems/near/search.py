"""Finds near-duplicates among sketches: locality-sensitive hashing by bands names candidates (Indyk and Motwani, 1998),
and the similarity of their signatures decides."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ratchet_problems.near.features import VIEWS
from ratchet_problems.near.sketches import HASHES, Sketches

_KNOWN_ROWS = (3, 4, 2)
"""Hashes of a band, by view, against known problems: finds prompts of 0.6, references of 0.7 and tests of 0.3 with
more than 99 %."""
_OWN_ROWS = (4, 5, 4)
"""Among the problems of one set, which may be a million."""
_KNOWN_AT_ONCE = 50_000
"""Known problems in a table: 110 MB."""
_MOST_OF_A_KEY = 50
"""Known problems that are candidates by one key: a key that more have says little, and all pairs of them are many."""
_AT_ONCE = 1_000
_PAIRS_AT_ONCE = 50_000
_SHOWN = 0.2
"""Less is no likeness."""

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Match:
    """Two problems that are nearly the same, by their places."""

    row: int
    other: int
    prompt: float
    reference: float
    tests: float
    """Similarities, from 0 to 1; 0 also where one of them has none."""

    def __str__(self) -> str:
        found = {name: getattr(self, name) for name in VIEWS}
        return ", ".join(f"{name} {value:.2f}" for name, value in found.items() if value >= _SHOWN)


def matches(known: Sketches, sketches: Sketches) -> Iterator[Match]:
    """As Known(known).matches(sketches), in any order, but for the least `other` of a row, which is the first of it.
    Both sets may have a million problems: the tables are of some of the smaller one at a time."""
    if len(known) > len(sketches):
        for start, part in _parts(sketches):
            for match in Known(part).matches(known):
                yield replace(match, row=match.other + start, other=match.row)
        return
    for start, part in _parts(known):
        for match in Known(part).matches(sketches):
            yield replace(match, other=match.other + start)


def _parts(sketches: Sketches) -> Iterator[tuple[int, Sketches]]:
    for start in range(0, len(sketches), _KNOWN_AT_ONCE):
        yield start, sketches.part(start, start + _KNOWN_AT_ONCE)


class Known:
    """Problems that others are compared with."""

    def __init__(self, sketches: Sketches) -> None:
        self.sketches = sketches
        self._tables = [_table(sketches, view, rows) for view, rows in enumerate(_KNOWN_ROWS)]

    def matches(self, sketches: Sketches) -> Iterator[Match]:
        """Every known problem that is nearly the same as one of `sketches`."""
        for start in range(0, len(sketches), _AT_ONCE):
            places = np.arange(start, min(start + _AT_ONCE, len(sketches)))
            found = [
                _looked_up(sketches, places, view, rows, self._tables[view]) for view, rows in enumerate(_KNOWN_ROWS)
            ]
            yield from _verified(sketches, self.sketches, _unique(found))


def duplicates(sketches: Sketches) -> Iterator[Match]:
    """One match for each problem that is nearly the same as an earlier one. `other` is the earlier."""
    found: set[int] = set()
    for view, rows in enumerate(_OWN_ROWS):
        present = np.flatnonzero(sketches.sizes[:, view])
        for band in range(HASHES // rows):
            keys = _keys(sketches, present, view, band, rows)
            order = np.argsort(keys, kind="stable")
            same = np.flatnonzero(keys[order][1:] == keys[order][:-1])
            if not len(same):
                continue
            runs = np.flatnonzero(np.diff(same, prepend=-2) > 1)
            firsts = np.repeat(same[runs], np.diff(np.append(runs, len(same))))  # of each run of equal keys
            later = present[order[same + 1]]
            pairs = [(later, present[order[same]]), (later, present[order[firsts]])]
            rest = _unique(pairs)
            is_new = ~np.isin(rest[0], np.fromiter(found, np.int64, len(found)))
            for match in _verified(sketches, sketches, (rest[0][is_new], rest[1][is_new])):
                if match.row not in found:
                    found.add(match.row)
                    yield match


@dataclass(frozen=True, slots=True)
class _Table:
    keys: NDArray[np.uint64]
    """Keys of all bands, in order."""
    places: NDArray[np.int64]


def _table(sketches: Sketches, view: int, rows: int) -> _Table:
    present = np.flatnonzero(sketches.sizes[:, view])
    bands = HASHES // rows
    keys = np.concatenate([_keys(sketches, present, view, band, rows) for band in range(bands)])
    order = np.argsort(keys, kind="stable")
    keys, places = keys[order], np.tile(present, bands)[order]
    if len(keys) > _MOST_OF_A_KEY:
        is_kept = np.ones(len(keys), dtype=np.bool_)
        is_kept[_MOST_OF_A_KEY:] = keys[_MOST_OF_A_KEY:] != keys[:-_MOST_OF_A_KEY]
        keys, places = keys[is_kept], places[is_kept]
    return _Table(keys, places)


def _keys(sketches: Sketches, places: NDArray[np.int64], view: int, band: int, rows: int) -> NDArray[np.uint64]:
    """Keys of one band; those of two bands differ."""
    keys = np.full(len(places), band + 1, dtype=np.uint64)
    for place in range(band * rows, (band + 1) * rows):
        keys = keys * np.uint64(0x9E3779B97F4A7C15) + sketches.signatures[places, view, place]
        keys ^= keys >> np.uint64(29)
    return keys


def _looked_up(sketches: Sketches, places: NDArray[np.int64], view: int, rows: int, table: _Table) -> Pairs:
    places = places[sketches.sizes[places, view] > 0]
    bands = HASHES // rows
    keys = np.concatenate([_keys(sketches, places, view, band, rows) for band in range(bands)])
    first, last = (np.searchsorted(table.keys, keys, side=side) for side in ("left", "right"))
    counts = last - first
    begin = np.repeat(first - np.cumsum(counts) + counts, counts)
    return np.repeat(np.tile(places, bands), counts), table.places[begin + np.arange(counts.sum())]


def _unique(pairs: list[Pairs]) -> Pairs:
    packed = np.unique(np.concatenate([(left << 32) | right for left, right in pairs]))
    return packed >> 32, packed & 0xFFFFFFFF


def _verified(left: Sketches, right: Sketches, pairs: Pairs) -> Iterator[Match]:
    for start in range(0, len(pairs[0]), _PAIRS_AT_ONCE):
        rows, others = (places[start : start + _PAIRS_AT_ONCE] for places in pairs)
        sizes = np.minimum(left.sizes[rows], right.sizes[others])
        alike = (left.signatures[rows] == right.signatures[others]).mean(axis=2) * (sizes > 0)
        structures = left.structures[rows], right.structures[others]
        apart = (structures[0] != structures[1]) & (structures[0] > 0) & (structures[1] > 0)
        for place in np.flatnonzero(_same(alike, sizes) & ~apart):
            yield Match(int(rows[place]), int(others[place]), *map(float, alike[place]))


def _same(alike: NDArray[np.float64], sizes: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Selects the pairs that are nearly the same.

    One view may say so alone where it is of some size; two that are alike need less. A prompt is believed unless the
    reference or the tests, where both problems have them, say otherwise. tests/bench/near_duplicates.py measures this.
    """
    prompt, reference, tests = alike.T
    words, nodes, cases = sizes.T
    agree = (reference >= 0.5) | (tests >= 0.3)
    contradicted = ((nodes >= 8) | (cases >= 2)) & ~agree
    by_prompt = ~contradicted & (
        ((prompt >= 0.6) & (words >= 4)) | ((prompt >= 0.75) & (words >= 3)) | ((prompt >= 0.99) & (words >= 2))
    )
    by_long_prompt = (prompt >= 0.8) & (words >= 5)
    by_reference = (reference >= 0.8) & (nodes >= 25)
    by_tests = (tests >= 0.6) & (cases >= 3)
    by_two = ((prompt >= 0.3) & (reference >= 0.7) & (nodes >= 8)) | (
        (tests >= 0.5) & (cases >= 2) & ((prompt >= 0.4) | (reference >= 0.5))
    )
    same: NDArray[np.bool_] = by_prompt | by_long_prompt | by_reference | by_tests | by_two
    return same
