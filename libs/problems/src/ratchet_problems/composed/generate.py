"""Generates the composed problems: distinct, every step of each felt by its tests, split by structure."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from random import Random

from ratchet_problems.composed.composition import ENTRY_POINT, Composition
from ratchet_problems.composed.inputs import Arguments, edge_cases, random_arguments
from ratchet_problems.composed.sampling import sample
from ratchet_problems.problem import CallTest, Problem

SPLITS = ("train", "validation", "test")
QUOTAS = {
    "train": {1: 75, 2: 500, 3: 700, 4: 700, 5: 525},
    "validation": {2: 50, 3: 50, 4: 50, 5: 50},
    "test": {2: 75, 3: 75, 4: 75, 5: 75},
}
"""Problems by difficulty. One operation alone is no composition, so difficulty 1 is only trained on."""

_PROBES = 24
_TESTS = 8
"""Tests of a problem beyond the edge cases."""
_MOST_DRAWS = 100_000

Outcomes = tuple[str, ...]
"""The results, as literals, of a composition on its source's edge cases and probes."""


@dataclass(frozen=True, slots=True)
class Posed:
    """A composition and the problem made of it."""

    composition: Composition
    problem: Problem


@cache
def posed() -> dict[str, tuple[Posed, ...]]:
    """All splits by name, each in random order; the same in every process. Takes seconds, once."""
    rng = Random("ratchet/composed/1")
    missing = {(split, difficulty): count for split, row in QUOTAS.items() for difficulty, count in row.items()}
    found: dict[str, list[Posed]] = {split: [] for split in SPLITS}
    seen: set[tuple[object, ...]] = set()
    for _ in range(_MOST_DRAWS):
        if not missing:
            break
        difficulty = rng.choice([difficulty for _, difficulty in missing])
        composition = sample(rng, difficulty)
        place = (split_of(composition.structure), difficulty) if composition else ("", 0)
        if composition is None or place not in missing or not _is_well_posed(composition):
            continue
        problem = _problem(composition)
        behaviours = {(composition.source.name, *_outcomes(composition)), problem.tests}
        if behaviours & seen:  # in whatever words it is the same problem, and the other may be in another split
            continue
        seen |= behaviours
        found[place[0]].append(Posed(composition, problem))
        missing[place] -= 1
        if not missing[place]:
            del missing[place]
    if missing:
        raise RuntimeError(f"the vocabulary is too small for the quotas: {missing} missing")
    _outcomes.cache_clear()
    _felt.cache_clear()
    return {split: tuple(rng.sample(problems, len(problems))) for split, problems in found.items()}


def composed_problems(split: str) -> tuple[Problem, ...]:
    return tuple(one.problem for one in posed()[split])


def demonstrations(copies: int = 4, flawed: float = 0.45) -> tuple[Problem, ...]:
    """The train split as an imperfect author would solve it: what the starter policy imitates.

    Each problem comes `copies` times with one reference. With probability `flawed` that leaves one of the steps out,
    as people do, and fails the tests: reinforcement learning is there to tell.
    """
    rng = Random("ratchet/demonstrations/1")
    shown = []
    for copy in range(copies):
        for one in posed()["train"]:
            simpler = tuple(one.composition.simpler())
            composition = rng.choice(simpler) if simpler and rng.random() < flawed else one.composition
            shown.append(replace(one.problem, id=f"{one.problem.id}/{copy}", references=(composition.as_expression(),)))
    return tuple(rng.sample(shown, len(shown)))


def split_of(structure: str) -> str:
    """The split of a structure, by its hash; a single operation is always trained on."""
    if ">" not in structure:
        return "train"
    bucket = int(hashlib.sha256(structure.encode()).hexdigest(), 16) % 100
    return "train" if bucket < 76 else "validation" if bucket < 86 else "test"


def _candidates(composition: Composition) -> tuple[Arguments, ...]:
    name = composition.source.name
    return edge_cases(name) + random_arguments(name, _PROBES)


def _results(composition: Composition) -> Iterator[str]:
    namespace: dict[str, Callable[..., object]] = {}
    exec(composition.as_expression(), namespace)  # a program of this package's own making
    return (repr(namespace[ENTRY_POINT](*arguments)) for arguments in _candidates(composition))


@cache
def _outcomes(composition: Composition) -> Outcomes:
    return tuple(_results(composition))


@cache
def _felt(composition: Composition) -> tuple[int, ...] | None:
    """For each step that can be left out, the first candidate whose result it changes; None where one changes none."""
    found = []
    for simpler in composition.simpler():
        pairs = enumerate(zip(_results(simpler), _outcomes(composition), strict=True))
        first = next((i for i, (without, result) in pairs if without != result), None)
        if first is None:
            return None
        found.append(first)
    return tuple(found)


def _is_well_posed(composition: Composition) -> bool:
    """Whether the results vary, and every step changes some of them."""
    wanted = 2 if composition.after and composition.after.name == "exceeds" else 5
    return len(set(_outcomes(composition))) >= wanted and _felt(composition) is not None


def _problem(composition: Composition) -> Problem:
    outcomes, candidates = _outcomes(composition), _candidates(composition)
    prompt = composition.prompt
    return Problem(
        id=f"composed/{composition.source.name}/{composition.structure}/{_short_hash(prompt)}",
        prompt=prompt,
        entry_point=ENTRY_POINT,
        tests=tuple(CallTest(repr(list(candidates[i])), outcomes[i]) for i in _telling(composition, outcomes)),
        references=composition.references(),
        difficulty=composition.difficulty,
        source="ratchet/composed",
        licence="Apache-2.0",
        structure=composition.structure,
    )


def _telling(composition: Composition, outcomes: Outcomes) -> list[int]:
    """Which candidates become tests: the edge cases, one that tells each simpler composition apart, random ones."""
    edges = len(edge_cases(composition.source.name))
    keep = [*range(edges), *(_felt(composition) or ())]
    chosen = list(dict.fromkeys([*keep, *range(edges, len(outcomes))]))
    return sorted(chosen[: max(len(set(keep)), edges + _TESTS)])


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
