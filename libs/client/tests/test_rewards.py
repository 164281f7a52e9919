from pathlib import Path

import pytest

from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_client import Client
from ratchet_client.rewards import COMBINATIONS, own, reward
from ratchet_testing.gateway import ScriptedGateway


def test_one_name_is_a_component_or_a_preset() -> None:
    assert reward("") == pb.RewardSpec()
    assert reward("balanced") == pb.RewardSpec(name="balanced")
    assert reward("tests", "gdpo") == pb.RewardSpec(name="tests_passed", combination=pb.RewardSpec.COMBINATION_GDPO)


def test_parts_have_weights() -> None:
    spec = reward("tests=0.7, style=0.2,length")
    assert [(one.name, one.weight, one.HasField("weight")) for one in spec.components] == [
        ("tests_passed", 0.7, True),
        ("style", 0.2, True),
        ("length", 0.0, False),
    ]


def test_a_veto_has_no_weight() -> None:
    [tests, safety] = reward("tests,safety=veto:0.5").components
    assert not tests.HasField("veto_below")
    assert (safety.weight, safety.veto_below) == (0.0, 0.5)


def test_a_file_is_a_reward_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "brevity.py"
    file.write_text("print([1])\n")
    [_, brevity] = reward(f"tests=0.9,{file}=0.1").components
    assert (brevity.name, brevity.weight, brevity.program) == ("brevity", 0.1, "print([1])\n")
    assert reward(str(file)).components[0] == own(file)
    with pytest.raises(OSError):
        reward("nowhere.py")
    file.write_text("\n")
    with pytest.raises(ValueError, match=r"brevity\.py is empty: write one with `ratchet new reward brevity`"):
        reward(str(file))


@pytest.mark.parametrize("text", ["style=", "style=much", "=0.5,style", "style,,length", "safety=veto:"])
def test_what_is_no_reward_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no number|no component"):
        reward(text)
    with pytest.raises(ValueError, match=r"use one of weighted_sum, gdpo, lexicographic"):
        reward("style", "mean")


def test_every_combination_has_a_name() -> None:
    assert list(COMBINATIONS) == ["weighted_sum", "gdpo", "lexicographic"]


def test_one_of_the_registry_is_named_as_it_is_written() -> None:
    assert reward("brevity@2") == pb.RewardSpec(name="brevity@2")
    assert [one.name for one in reward("tests=0.9,brevity@2=0.1").components] == ["tests_passed", "brevity@2"]


def test_rewards_are_made_read_and_deleted(gateway: ScriptedGateway) -> None:
    made = {"reward": {"name": "brevity", "number": 2}}
    gateway.answers(made, made, {"rewards": [made["reward"]]}, {})
    with Client(gateway.url, "rk_key") as client:
        assert client.rewards.create("brevity", "print([])", "short", request_id="mine").number == 2
        assert client.rewards.get("brevity", 2).name == "brevity"
        assert [one.number for one in client.rewards.list("brevity")] == [2]
        client.rewards.delete("brevity", 2, force=True)
    post, get, _, delete = gateway.received
    assert (post.verb, post.path) == ("POST", "/api/v1/rewards")
    assert post.body == {"request_id": "mine", "name": "brevity", "source": "print([])", "description": "short"}
    assert (get.path, get.query) == ("/api/v1/rewards/brevity", {"number": "2"})
    assert (delete.path, delete.query) == ("/api/v1/rewards/brevity/versions/2", {"force": "true"})
