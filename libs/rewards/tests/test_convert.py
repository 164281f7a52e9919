from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_kit.faults import Faults
from ratchet_kit.names import VersionRef
from ratchet_rewards import Component, Point, Reward, completed
from ratchet_rewards.convert import from_proto, to_proto

WHOLE = Reward(
    components=(
        Component("tests_fraction", schedule=(Point(1, 1.0), Point(9, 0.0))),
        Component("length", -0.5, {"tokens": 30.0}, passing_only=True),
        Component("safety", 0.0, veto_below=0.5, tags=("web", "files")),
        Component("loud", program="print([])"),
        Component("preference", 0.3, {"center": 2.0, "scale": 5.0}, model=VersionRef("helpful", 2)),
    ),
    combination="gdpo",
)


def test_there_and_back() -> None:
    message = to_proto(completed(WHOLE))
    assert from_proto(message, Faults()) == WHOLE  # the digest is made anew
    assert message.components[3].digest.startswith("sha256:")
    assert completed(from_proto(message, Faults())) == completed(WHOLE)


def test_a_version_of_the_registry_is_kept() -> None:
    whole = Reward(components=(Component("brevity", 0.1, program="print([])", version=2),))
    assert from_proto(to_proto(whole), Faults()) == Reward(components=whole.components)
    assert to_proto(whole).components[0].version == 2


def test_a_name_is_kept_until_the_reward_is_complete() -> None:
    assert to_proto(Reward("style")) == pb.RewardSpec(name="style")
    assert to_proto(Reward()) == pb.RewardSpec()
    message = to_proto(completed(Reward("style")))
    assert (message.name, [one.name for one in message.components]) == ("", ["style"])


def test_a_combination_that_is_not_known_is_kept() -> None:
    assert from_proto(pb.RewardSpec(combination=77), Faults()).combination == "77"  # type: ignore[arg-type]


def test_a_model_that_is_none_is_named() -> None:
    faults = Faults().under("reward")
    component = pb.RewardComponent(name="preference")
    component.model.version.model = "helpful"
    assert from_proto(pb.RewardSpec(components=[component]), faults).components[0].model is None
    assert [fault.field for fault in faults.violations] == ["reward.components[0].model.version.number"]
