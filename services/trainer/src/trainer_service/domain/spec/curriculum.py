"""A curriculum: how draws of problems are weighted, and the stages that problems come in."""

from collections.abc import Sequence
from dataclasses import dataclass

from ratchet_kit.faults import Faults

EXPLORATION = 0.1
"""The default."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a stage selects a problem by."""

    difficulty: int
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the problems, and when it ends: at `steps` or at `pass_rate`, whichever comes first."""

    min_difficulty: int | None = None
    max_difficulty: int | None = None
    tags: tuple[str, ...] = ()
    """Problems that have one of them; none: all."""
    steps: int | None = None
    pass_rate: float | None = None
    """Of its problems, as it is estimated."""

    def selects(self, kind: Kind) -> bool:
        low = self.min_difficulty is None or kind.difficulty >= self.min_difficulty
        high = self.max_difficulty is None or kind.difficulty <= self.max_difficulty
        return low and high and (not self.tags or bool(set(self.tags) & set(kind.tags)))


@dataclass(frozen=True, slots=True)
class Curriculum:
    exploration: float | None = None
    """The share of draws in which problems are alike; the others are weighted by what their groups told so far."""
    stages: tuple[Stage, ...] = ()
    """None: all problems, to the end of the run."""


def completed(curriculum: Curriculum, group_size: int | None) -> Curriculum:
    """With the default of what is open: a lone completion is compared with nothing, and tells nothing to weigh by."""
    if curriculum.exploration is not None:
        return curriculum
    return Curriculum(EXPLORATION if (group_size or 1) > 1 else 1.0, curriculum.stages)


def check(
    curriculum: Curriculum,
    *,
    kinds: Sequence[Kind] | None,
    steps: int,
    batch_size: int | None,
    group_size: int | None,
    faults: Faults,
) -> None:
    """Adds what is wrong with a complete one, for an algorithm that draws problems. `kinds`: of the run's problems;
    None where they were not found."""
    share = curriculum.exploration or 0.0
    if faults.bounds("exploration", share, above=0, at_most=1) and (group_size or 1) == 1:
        alone = "must be 1, or absent: group_size is 1, and a lone completion does not tell how much is learned from it"
        faults.unless(share == 1, "exploration", alone)
    for place, stage in enumerate(curriculum.stages):
        is_last = place == len(curriculum.stages) - 1
        _check_stage(stage, is_last, kinds, batch_size or 1, faults.under(f"stages[{place}]"))
    before = sum(stage.steps or 0 for stage in curriculum.stages[:-1])
    reached = f"must come to an end: those before the last have {before} steps together, and the run has {steps}"
    faults.unless(before < steps or not before, "stages", reached)


def _check_stage(stage: Stage, is_last: bool, kinds: Sequence[Kind] | None, batch_size: int, faults: Faults) -> None:
    for name, value, bounds in (
        ("min_difficulty", stage.min_difficulty, {"at_least": 1}),
        ("max_difficulty", stage.max_difficulty, {"at_least": 1}),
        ("steps", stage.steps, {"at_least": 1}),
        ("pass_rate", stage.pass_rate, {"above": 0, "at_most": 1}),
    ):
        if value is not None:
            faults.bounds(name, value, **bounds)
    for name in ("steps", "pass_rate"):
        ends = getattr(stage, name) is not None
        faults.unless(not (is_last and ends), name, "must be absent: it is the last stage, and goes to the run's end")
    endless = "must be there, or pass_rate: a stage with others after it has an end"
    faults.unless(is_last or stage.steps is not None or stage.pass_rate is not None, "steps", endless)
    if kinds is None:
        return
    selected = sum(stage.selects(kind) for kind in kinds)
    if selected < batch_size:
        field = "tags" if stage.tags else "max_difficulty" if stage.max_difficulty is not None else "min_difficulty"
        faults.add(field, f"must select {batch_size} problems or more, a step's, not {selected}: {_there_are(kinds)}")


def _there_are(kinds: Sequence[Kind]) -> str:
    counts = {level: sum(kind.difficulty == level for kind in kinds) for level in {kind.difficulty for kind in kinds}}
    levels = ", ".join(f"{counts[level]} of {level}" for level in sorted(counts))
    tags = sorted({tag for kind in kinds for tag in kind.tags})
    shown = ", ".join(tags[:20]) + (", ..." if len(tags) > 20 else "")
    return f"of difficulties there are {levels}; of tags {shown or 'none'}"
