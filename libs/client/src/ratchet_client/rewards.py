"""Rewards in short: "tests=0.7,style=0.2,length=0.1" is a weighted sum of three components. docs/rewards.md.

    spec = RunSpec(..., reward=reward("tests=0.8,brevity.py=0.2", "gdpo"))

What is there, and within which bounds, the trainer checks.
"""

from pathlib import Path

from ratchet.trainer.v1 import trainer_pb2 as pb

SHORT = {"tests": "tests_passed"}
COMBINATIONS = {
    name.removeprefix("COMBINATION_").lower(): number
    for name, number in pb.RewardSpec.Combination.items()
    if number != pb.RewardSpec.COMBINATION_UNSPECIFIED
}


def reward(text: str, combination: str = "") -> pb.RewardSpec:
    """Parts with commas between them, each `NAME`, `NAME=WEIGHT` or `NAME=veto:VALUE`: no weight, and whatever is below
    the value earns the least there is. A name that ends in .py is the file of a reward of one's own, which is called
    like it. One name alone may be a preset. `combination`: of COMBINATIONS; empty: a weighted sum, or the preset's.

    Raises ValueError, with one sentence, and OSError for a file that cannot be read.
    """
    if combination and combination not in COMBINATIONS:
        raise ValueError(f"{combination!r} is no way to combine: use one of {', '.join(COMBINATIONS)}")
    number = COMBINATIONS.get(combination, pb.RewardSpec.COMBINATION_UNSPECIFIED)
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if len(parts) < 2 and not any("=" in part or part.endswith(".py") for part in parts):
        name = "".join(parts)
        return pb.RewardSpec(name=SHORT.get(name, name), combination=number)
    return pb.RewardSpec(components=[_component(part) for part in parts], combination=number)


def own(file: Path) -> pb.RewardComponent:
    """A reward of one's own. Raises OSError, and ValueError for what is no text."""
    return pb.RewardComponent(name=file.stem, program=file.read_text(encoding="utf-8"))


def _component(part: str) -> pb.RewardComponent:
    name, equals, value = (one.strip() for one in part.partition("="))
    if not name:
        raise ValueError(f"{part!r} names no component: write NAME=WEIGHT")
    made = own(Path(name)) if name.endswith(".py") else pb.RewardComponent(name=SHORT.get(name, name))
    if not equals:
        return made
    is_veto = value.startswith("veto:")
    try:
        number = float(value.removeprefix("veto:"))
    except ValueError:
        raise ValueError(f"{part!r} has no number: write {name}=0.5, or {name}=veto:0.5") from None
    if is_veto:
        made.weight, made.veto_below = 0.0, number
    else:
        made.weight = number
    return made
