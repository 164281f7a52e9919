"""Rewards to protobuf and back. Pure; values that are not known are kept, for `check` to name."""

from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_kit import refs
from ratchet_kit.faults import Faults
from ratchet_rewards.reward import Component, Point, Reward

_PREFIX = "COMBINATION_"


def from_proto(message: pb.RewardSpec, faults: Faults) -> Reward:
    """An invalid model is reported in `faults`, those of the reward, and left unset."""
    return Reward(
        name=message.name,
        components=tuple(
            Component(
                name=component.name,
                weight=component.weight if component.HasField("weight") else None,
                parameters=dict(component.parameters),
                veto_below=component.veto_below if component.HasField("veto_below") else None,
                passing_only=component.passing_only,
                schedule=tuple(Point(point.step, point.weight) for point in component.schedule),
                program=component.program,
                version=component.version,
                model=faults.read(f"components[{place}].model", refs.model_from_proto, component.model)
                if component.HasField("model")
                else None,
                tags=tuple(component.tags),
            )
            for place, component in enumerate(message.components)
        ),
        combination=_combination(message.combination),
    )


def to_proto(reward: Reward) -> pb.RewardSpec:
    """The message of a reward whose combination is known."""
    combination = pb.RewardSpec.Combination.Value(f"{_PREFIX}{(reward.combination or 'unspecified').upper()}")
    return pb.RewardSpec(
        name=reward.name,
        components=[
            pb.RewardComponent(
                name=component.name,
                weight=component.weight,
                parameters=component.parameters,
                veto_below=component.veto_below,
                passing_only=component.passing_only,
                schedule=[pb.WeightPoint(step=point.step, weight=point.weight) for point in component.schedule],
                program=component.program,
                digest=component.digest,
                version=component.version,
                model=refs.model_to_proto(component.model) if component.model else None,
                tags=component.tags,
            )
            for component in reward.components
        ],
        combination=combination,
    )


def _combination(number: int) -> str:
    """Empty when it is not set, and the number when it is not known."""
    value = pb.RewardSpec.Combination.DESCRIPTOR.values_by_number.get(number)
    name = value.name.removeprefix(_PREFIX).lower() if value else str(number)
    return "" if number == 0 else name
