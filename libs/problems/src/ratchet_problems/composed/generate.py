"""Generates the composed problems: distinct, each step of each one felt by its tests, split by structure."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import TypeVar

from ratchet_problems.composed.composition import ENTRY_POINT, Composition
from ratchet_problems.composed.inputs import Arguments, edge_cases, random_arguments
from ratchet_problems.composed.vocabulary import AFTERS, FILTERS, FINISHERS, MAPS, SOURCES, After, Filter, Finisher, Map
from ratchet_problems.problem import CallTest, Problem

SPLITS = ("train", "validation", "test")
QUOTAS = {
    "train": {1: 75, 2: 500, 3: 700, 4: 700, 5: 510},
    "validation": {2: 50, 3: 50, 4: 50, 5: 50},
    "test": {2: 75, 3: 75, 4: 75, 5: 75},
}
"""Problems by difficulty. One operation alone is no composition, so difficulty 1 is only trained on."""

_PROBES = 24
_TESTS = 8
"""Tests beyond the edge cases."""
COMPOSITIONS = {}
Outcomes = tuple[str, ...]
Operation = TypeVar("Operation", Filter, Map, Finisher, After)


@lru_cache(maxsize=1)
def composed_problems() -> dict[str, tuple[Problem, ...]]:
    """All splits by name; the same problems in every process."""
    rng = Random("ratchet/composed/1")
    missing = {(split, level): count for split, levels in QUOTAS.items() for level, count in levels.items()}
    found: dict[str, list[Problem]] = {split: [] for split in SPLITS}
    behaviours: set[tuple[str, Outcomes]] = set()
    prompts: set[str] = set()
    for _ in range(60_000):
        if not any(missing.values()):
            break
        level = rng.randint(1, 5)
        composition = _sample(rng, level)
        split = split_of(composition.structure)
        if composition.difficulty != level or not missing.get((split, level)) or composition.prompt in prompts:
            continue
        outcomes = _outcomes(composition)
        if (composition.source.name, outcomes) in behaviours or not _well_posed(composition, outcomes):
            continue
        COMPOSITIONS[composition.prompt] = composition
        behaviours.add((composition.source.name, outcomes))
        prompts.add(composition.prompt)
        found[split].append(_problem(composition, outcomes))
        missing[split, level] -= 1

    return {split: tuple(problems) for split, problems in found.items()}


def split_of(structure: str) -> str:
    """The split of a structure, by its hash; a single operation is always trained on."""
    if ">" not in structure:
        return "train"
    bucket = int(hashlib.sha256(structure.encode()).hexdigest(), 16) % 100
    return "train" if bucket < 76 else "validation" if bucket < 86 else "test"


def _bound(rng: Random, operation: Operation) -> Operation:
    """The operation with one of its constants filled in."""
    if not operation.constants:
        return operation
    constant = str(rng.choice(operation.constants))
    fields = ("test", "after", "expression", "words", "suffix")
    filled = {name: getattr(operation, name).replace("{k}", constant) for name in fields if hasattr(operation, name)}
    return replace(operation, **filled, constants=())


def _sample(rng: Random, level: int) -> Composition:
    source = rng.choice(SOURCES)
    steps = level - 1 - source.complex
    has_after = steps > 0 and rng.random() < 0.35
    steps -= has_after
    filter_count = sum(rng.random() < 0.5 for _ in range(max(steps, 0)))
    filter_count = min(filter_count, 2)
    filters = sorted(
        rng.sample([f for f in FILTERS if f.kind == source.kind], filter_count), key=lambda f: FILTERS.index(f)
    )
    kind = source.kind
    maps: list[Map] = []
    for _ in range(min(steps - filter_count, 2)):
        step = rng.choice([m for m in MAPS if m.kind == kind])
        maps.append(_bound(rng, step))
        kind = step.to
    finisher = rng.choice([f for f in FINISHERS if f.kind in (None, kind)])
    afters = [a for a in AFTERS if _takes(a, finisher)]
    after = _bound(rng, rng.choice(afters)) if has_after and afters else None
    return Composition(source, tuple(_bound(rng, f) for f in filters), tuple(maps), finisher, after)


def _takes(after: After, finisher: Finisher) -> bool:
    return finisher.shape == after.shape


def compiled(program: str) -> Callable[..., object]:
    """The entry point of a reference. Only for programs that this package wrote: it runs them unguarded."""
    namespace: dict[str, Callable[..., object]] = {}
    exec(program, namespace)
    return namespace[ENTRY_POINT]


def _candidates(source: str) -> tuple[Arguments, ...]:
    return edge_cases(source) + random_arguments(source, _PROBES)


def _outcomes(composition: Composition) -> Outcomes:
    function = compiled(composition.references()[0])
    return tuple(repr(function(*arguments)) for arguments in _candidates(composition.source.name))


def _well_posed(composition: Composition, outcomes: Outcomes) -> bool:
    """Whether every step changes some result, and the results vary."""
    if composition.difficulty == 1 and composition.finisher.name == "list":
        return False
    varied = len(set(outcomes)) >= (2 if set(outcomes) <= {"True", "False"} else 5)
    return varied and all(_outcomes(simpler) != outcomes for simpler in composition.simpler())


def _problem(composition: Composition, outcomes: Outcomes) -> Problem:
    candidates = list(zip(_candidates(composition.source.name), outcomes, strict=True))
    edges = len(edge_cases(composition.source.name))
    chosen = _telling(composition, candidates, edges)
    return Problem(
        id=f"composed/{composition.source.name}/{composition.structure}/{_short(composition.prompt)}",
        prompt=composition.prompt,
        entry_point=ENTRY_POINT,
        tests=tuple(CallTest(args=repr(list(arguments)), expected=outcome) for arguments, outcome in chosen),
        references=composition.references(),
        difficulty=composition.difficulty,
        source="ratchet/composed",
        licence="Apache-2.0",
        structure=composition.structure,
    )


def _telling(
    composition: Composition, candidates: list[tuple[Arguments, str]], edges: int
) -> Iterable[tuple[Arguments, str]]:
    """The edge cases, an input that tells each simpler composition apart, and random ones."""
    keep = set(range(edges))
    for simpler in composition.simpler():
        function = compiled(simpler.references()[0])
        keep.add(next(i for i, (arguments, want) in enumerate(candidates) if repr(function(*arguments)) != want))
    rest: Iterator[int] = (i for i in range(edges, len(candidates)) if i not in keep)
    while len(keep) < edges + _TESTS:
        keep.add(next(rest))
    return [candidates[i] for i in sorted(keep)]


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
