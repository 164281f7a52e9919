"""`--set`: every field of a run on the command line."""

from pathlib import Path

import pytest

from ratchet.common.v1 import priority_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_cli.commands.overrides import override
from ratchet_workflows.errors import UsageError


def made(*texts: str) -> pb.RunSpec:
    spec = pb.RunSpec(steps=40, loggers=["wandb"], resources=pb.Resources(nodes=2))
    override(spec, texts)
    return spec


def test_hyperparameters_and_thresholds_go_by_their_own_names() -> None:
    spec = made("learning_rate=1e-4", "group_size=8", "kl_limit=0", "kl_in_reward=true", "hyperparameters.gamma=1")
    assert (spec.hyperparameters.learning_rate, spec.hyperparameters.group_size, spec.hyperparameters.gamma) == (
        1e-4,
        8,
        1,
    )
    assert (spec.thresholds.HasField("kl_limit"), spec.hyperparameters.kl_in_reward) == (True, True)
    assert not spec.hyperparameters.HasField("batch_size")


def test_a_field_takes_what_a_file_takes(tmp_path: Path) -> None:
    spec = made(
        "display_name=7: three steps",
        "priority=high",
        "pairs=pairs.jsonl",
        "environment=edits=3",
        "plugins=sampler:easy_first",
        "profile_steps=2,3",
        'verl_overrides=[a.b=1e-6, "c=[2]"]',
        "resources.device=cpu",
        "validation_problems.limit=8",
        "base=starter@2",
        "reward=tests=0.7,style=0.3",
        "reward.combination=gdpo",
        "curriculum={exploration: 0.1}",
        "examples=mine@1/train=5",
    )
    assert (spec.display_name, spec.priority, spec.pairs.name) == (
        "7: three steps",
        priority_pb2.PRIORITY_HIGH,
        "pairs.jsonl",
    )
    assert (spec.environment.name, spec.environment.max_turns) == ("edits", 3)
    assert list(spec.plugins) == [pb.Plugin(kind=pb.PLUGIN_KIND_SAMPLER, name="easy_first")]
    assert (list(spec.profile_steps), list(spec.verl_overrides)) == ([2, 3], ["a.b=1e-6", "c=[2]"])
    assert (spec.resources.nodes, spec.resources.device) == (2, pb.DEVICE_CPU)
    assert (spec.validation_problems.limit, spec.base.version.number) == (8, 2)
    assert (len(spec.reward.components), spec.reward.combination) == (2, pb.RewardSpec.COMBINATION_GDPO)
    assert spec.curriculum.exploration == 0.1
    assert (spec.examples.name, spec.examples.limit) == ("mine@1/train", 5)


def test_a_chat_template_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.jinja").write_text("{{ messages }}")
    assert made(f"chat_template={tmp_path}/mine.jinja").chat_template == "{{ messages }}"


def test_a_list_takes_the_place_of_the_files() -> None:
    assert list(made("loggers=console,mlflow").loggers) == ["console", "mlflow"]
    assert made("steps=3").steps == 3


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["learning_rat=1"], "'learning_rat' is not a field of a run. Did you mean learning_rate?"),
        (["resources.devise=cpu"], "'resources.devise' is not a field of a run. Did you mean device?"),
        (["seed.x=1"], "'seed.x' is not a field of a run."),
        (["gamma=1", "gamma=0.9"], "gamma has a value already: say it once."),
        (["gamma"], "say its value, as in --set gamma=VALUE."),
        (["group_size=8.5"], "hyperparameters.group_size must be a whole number, not 8.5"),
        (["learning_rate_schedule=unspecified"], "must be one of constant, cosine, linear"),
        (["seed=-99999999999999999999"], "seed cannot hold -99999999999999999999"),
        (["kl_in_reward=1"], "must be true or false"),
        (["profile_steps=two"], "profile_steps[0] must be a whole number"),
        (["curriculum={"], "this is not a YAML value"),
        (["seed="], "seed has no value"),
        (["examples=mine=many"], "examples must be a set, or a set and a number, as mine@1/train=3"),
        (["environment=edits=many"], "environment must be a name, or a name and a number of answers, as edits=3"),
    ],
)
def test_what_is_wrong_is_said(texts: list[str], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        made(*texts)
    assert str(raised.value).startswith("--set ")
    assert said in str(raised.value)
