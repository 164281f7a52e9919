"""Rewards: those of one's own in the registry, and a run's in short. docs/rewards.md.

    client.rewards.create("brevity", Path("brevity.py").read_text())
    spec = RunSpec(..., reward=reward("tests=0.8,brevity@1=0.2", "gdpo"))     # a weighted sum of two components

What is there, and within which bounds, the trainer checks.
"""

from pathlib import Path

from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_client.calls import Call, Listing, call, listing, new_request_id, nothing
from ratchet_client.resource import Resource, S, listed, unary

SHORT = {"tests": "tests_passed"}
COMBINATIONS = {
    name.removeprefix("COMBINATION_").lower(): number
    for name, number in pb.RewardSpec.Combination.items()
    if number != pb.RewardSpec.COMBINATION_UNSPECIFIED
}


class Rewards(Resource[S]):
    """Versions of rewards of one's own."""

    @unary
    def create(self, name: str, source: str, description: str = "", request_id: str = "") -> Call[registry_pb2.Reward]:
        """The next version of the name; the same source again gives the version that has it."""
        request = registry_pb2.CreateRewardRequest(
            request_id=request_id or new_request_id(), name=name, source=source, description=description
        )
        return call(request, registry_pb2.CreateRewardResponse, lambda reply: reply.reward)

    @unary
    def get(self, name: str, number: int | None = None) -> Call[registry_pb2.Reward]:
        """With its source; without a number the newest version."""
        request = registry_pb2.GetRewardRequest(name=name, number=number)
        return call(request, registry_pb2.GetRewardResponse, lambda reply: reply.reward)

    @listed
    def list(self, name: str = "") -> Listing[registry_pb2.Reward]:
        """All versions of all rewards, or of one, by name and the newest first; without their sources."""
        request = registry_pb2.ListRewardsRequest(name=name)
        return listing(request, registry_pb2.ListRewardsResponse, lambda reply: reply.rewards)

    @unary
    def delete(self, name: str, number: int, *, force: bool = False) -> Call[None]:
        """`force`: although runs were made with it."""
        request = registry_pb2.DeleteRewardRequest(name=name, number=number, force=force)
        return nothing(request, registry_pb2.DeleteRewardResponse)


def reward(text: str, combination: str = "") -> pb.RewardSpec:
    """Parts with commas between them, each `NAME`, `NAME=WEIGHT` or `NAME=veto:VALUE`: no weight, and whatever is below
    the value earns the least there is. A name that ends in .py is the file of a reward of one's own, which is called
    like it; one of the registry is `brevity@2`, or `brevity` for its newest version. One name alone may be a preset.
    `combination`: of COMBINATIONS; empty: a weighted sum, or the preset's.

    Raises ValueError, with one sentence, and OSError for a file that cannot be read.
    """
    if combination and combination not in COMBINATIONS:
        raise ValueError(f"{combination!r} is not a combination: use one of {', '.join(COMBINATIONS)}")
    number = COMBINATIONS.get(combination, pb.RewardSpec.COMBINATION_UNSPECIFIED)
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if len(parts) < 2 and not any("=" in part or part.endswith(".py") for part in parts):
        name = "".join(parts)
        return pb.RewardSpec(name=SHORT.get(name, name), combination=number)
    return pb.RewardSpec(components=[_component(part) for part in parts], combination=number)


def own(file: Path) -> pb.RewardComponent:
    """A reward of one's own. Raises OSError, and ValueError for what is no text, or none."""
    program = file.read_text(encoding="utf-8")
    if not program.strip():
        raise ValueError(f"{file} is empty: write one with `ratchet new reward {file.stem}`")
    return pb.RewardComponent(name=file.stem, program=program)


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
