"""A spec as a whole: names, steps, resources, thresholds, plug-ins; and that the defaults are as they should be."""

from dataclasses import replace
from typing import Any

import pytest

from ratchet_kit.faults import Faults
from ratchet_kit.usage import Prices
from ratchet_rewards import Reward
from trainer_service.domain.create.defaults import complete
from trainer_service.domain.create.validation import check
from trainer_service.domain.inputs.found import Found
from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.limits import Limits
from trainer_service.domain.spec.plugins import Plugin, PluginKind
from trainer_service.domain.spec.spec import ProblemSetRef, Resources, RunSpec
from trainer_service.domain.spec.thresholds import Thresholds

from .faults import LIMITS, STARTER_1, named


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_defaults_of_every_algorithm_are_valid(algorithm: str, ranks: int, make_spec: Any) -> None:
    assert named(make_spec(algorithm=algorithm, resources=Resources(accelerators_per_node=ranks))) == {}


def test_samples_are_kept_of_what_a_run_samples_to_learn_from(make_spec: Any) -> None:
    assert named(make_spec(kept_groups=0)) == {}
    assert named(make_spec(kept_groups=10**6)) == {}
    assert list(named(make_spec(kept_groups=-1))) == ["spec.kept_groups"]
    said = {"spec.kept_groups": "must be absent: SFT samples nothing to learn from"}
    assert named(make_spec(algorithm="sft", kept_groups=1)) == said


def test_a_base_is_whole(make_spec: Any) -> None:
    cut = ("model.safetensors is cut short",)
    broken = replace(STARTER_1, has_tokenizer=False, faults=cut, quantised="its w is U8")
    faults = Faults()
    found = Found(broken)
    check(complete(make_spec(), found, LIMITS), found, LIMITS, faults.under("spec"))
    assert [(fault.field, fault.description) for fault in faults.violations] == [
        ("spec.base", "must have a tokenizer: tokenizer.json is missing in its folder"),
        ("spec.base", "must be a whole model: model.safetensors is cut short"),
        (
            "spec.base",
            "must not be quantised, which cannot be learned from: take the model that it was made of (its w is U8)",
        ),
    ]


def test_adapters_are_not_merged_into_experts(make_spec: Any) -> None:
    mixture, lora = Found(replace(STARTER_1, has_experts=True)), make_spec(hyperparameters=Hyperparameters(lora_rank=8))
    assert named(make_spec(), found=mixture) == {}
    assert set(named(lora, found=mixture)) == {"spec.hyperparameters.lora_rank"}


def test_thresholds_are_within_what_they_measure(make_spec: Any) -> None:
    off = Thresholds(**dict.fromkeys(Thresholds.__dataclass_fields__, 0.0))
    assert named(make_spec(thresholds=off)) == {}
    wrong = Thresholds(kl_limit=-1, tampered_share=2, collapse_confidence=1, length_drift=0.5)
    assert set(named(make_spec(thresholds=wrong))) == {
        "spec.thresholds.kl_limit",
        "spec.thresholds.tampered_share",
        "spec.thresholds.collapse_confidence",
        "spec.thresholds.length_drift",
    }


def test_every_fault_is_named_at_once(make_spec: Any) -> None:
    spec = RunSpec(
        base=None,
        algorithm="99",
        problems=ProblemSetRef("basics"),
        steps=0,
        reward=Reward("loudest"),
        resources=Resources(nodes=2, accelerators_per_node=8, device="tpu"),
        seed=-1,
        loggers=("console", "paper", "console"),
        output_model="Not A Name",
        priority="7",
        verl_overrides=("no equals sign", "trainer.save_freq=2"),
        validate_every=0,
        checkpoint_every=-1,
        max_tokens=0,
    )
    assert set(named(spec)) == {
        "spec.algorithm",
        "spec.steps",
        "spec.reward.name",
        "spec.resources.nodes",
        "spec.resources.accelerators_per_node",
        "spec.resources.device",
        "spec.seed",
        "spec.loggers[1]",
        "spec.loggers[2]",
        "spec.output_model",
        "spec.priority",
        "spec.verl_overrides[0]",
        "spec.verl_overrides[1]",
        "spec.validate_every",
        "spec.checkpoint_every",
        "spec.max_tokens",
    }


def test_of_many_loggers_few_are_looked_at(make_spec: Any) -> None:
    faults = named(make_spec(loggers=("console",) * 100_000))
    assert "spec.loggers" in faults
    assert len(faults) < 10


def test_what_an_algorithm_is_by_no_plugin_takes_the_place_of(make_spec: Any) -> None:
    def at_fault(algorithm: str, kind: PluginKind) -> bool:
        return "spec.plugins[0].kind" in named(make_spec(algorithm=algorithm, plugins=(Plugin(kind, "own"),)))

    assert [at_fault("gspo", PluginKind.LOSS), at_fault("cispo", PluginKind.LOSS)] == [True, True]
    assert [at_fault("remax", PluginKind.ADVANTAGE), at_fault("remax", PluginKind.LOSS)] == [True, False]
    assert [at_fault("dr_grpo", PluginKind.LOSS), at_fault("gspo", PluginKind.ADVANTAGE)] == [False, False]


def test_a_cluster_decides_itself_how_many_accelerators_it_has(make_spec: Any) -> None:
    spec = make_spec(resources=Resources(nodes=2, accelerators_per_node=8))
    assert named(spec, Limits(accelerators=None, devices=("cuda",))) == {}
    assert len(named(spec, Limits(accelerators=2))) == 2


@pytest.mark.parametrize(
    ("resources", "field"),
    [
        (Resources(nodes=0), "nodes"),
        (Resources(accelerators_per_node=0), "accelerators_per_node"),
        (Resources(nodes=-1, accelerators_per_node=-1), "nodes"),
        (Resources(device="cuda"), "device"),
        (Resources(engines=0), "engines"),
        (Resources(engines=65), "engines"),
    ],
)
def test_resources_at_fault_are_named(resources: Resources, field: str, make_spec: Any) -> None:
    assert f"spec.resources.{field}" in named(make_spec(resources=resources))


def test_a_pair_stays_on_one_rank(make_spec: Any) -> None:
    spec = make_spec(algorithm="dpo", verl_overrides=("trainer.balance_batch=true", "engine.param_offload=true"))
    assert set(named(spec)) == {"spec.verl_overrides[0]"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"profile_steps": (0,)}, "spec.profile_steps[0]"),
        ({"profile_steps": (1, 5)}, "spec.profile_steps[1]"),
        ({"profile_steps": (2, 2)}, "spec.profile_steps[1]"),
        ({"profile_steps": tuple(range(1, 12)), "steps": 20}, "spec.profile_steps"),
        ({"profile_steps": (1,), "algorithm": "sft"}, "spec.profile_steps"),
        ({"tracker_project": "../up"}, "spec.tracker_project"),
        ({"tracker_project": "a/b"}, "spec.tracker_project"),
    ],
)
def test_what_is_traced_and_where_it_is_shown_is_checked(changes: Any, field: str, make_spec: Any) -> None:
    assert field in named(make_spec(**changes))


def test_steps_may_be_traced_and_a_project_has_a_name(make_spec: Any) -> None:
    assert not {"spec.profile_steps", "spec.tracker_project"} & set(
        named(make_spec(profile_steps=(2, 3), tracker_project="a b-1"))
    )


@pytest.mark.parametrize(
    ("algorithm", "thresholds", "refused"),
    [
        ("grpo", Thresholds(loss_rise=3.0), {"loss_rise"}),
        ("grpo", Thresholds(loss_rise=0.0, kl_limit=2.0, gradient_spike=5.0), set()),
        ("sft", Thresholds(kl_limit=2.0, reward_limit=0.5, loss_rise=3.0), {"kl_limit", "reward_limit"}),
        ("dpo", Thresholds(collapse_confidence=0.99, reward_limit=0.5, entropy_floor=0.1), {"entropy_floor"}),
    ],
)
def test_a_guard_that_a_run_does_not_have_cannot_be_set(
    algorithm: str, thresholds: Thresholds, refused: set[str], make_spec: Any
) -> None:
    found = named(make_spec(algorithm=algorithm, thresholds=thresholds))
    assert found.keys() == {f"spec.thresholds.{name}" for name in refused}


def test_a_budget_needs_the_operators_prices(make_spec: Any) -> None:
    assert "the operator has set no prices (RATCHET_PRICES)" in named(make_spec(budget=50.0))["spec.budget"]
    priced = Limits(prices=Prices(currency="EUR", gpu_hour=2.0))
    assert named(make_spec(budget=50.0), priced) == {}
    assert "spec.budget" in named(make_spec(budget=0.0), priced)
    assert "spec.budget" in named(make_spec(budget=float("nan")), priced)
