"""Hyperparameters: each, beside the others, and beside what the references lead to."""

from dataclasses import replace
from typing import Any

import pytest

from ratchet_environments import EnvironmentSpec
from ratchet_rewards import Component, Reward
from trainer_service.domain.create.defaults import complete
from trainer_service.domain.create.validation import notices
from trainer_service.domain.inputs.found import Found, FoundSet
from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.limits import Limits
from trainer_service.domain.spec.plugins import Plugin
from trainer_service.domain.spec.spec import ProblemSetRef, Resources

from .faults import FOUND, LIMITS, named

TURNS = {"turn_discount": 0.9}


def found_sets(problems: int, validation: ProblemSetRef, validation_size: int) -> Found:
    return replace(
        FOUND,
        problems=FoundSet(ProblemSetRef("composed/train"), problems),
        validation_problems=FoundSet(validation, validation_size),
    )


@pytest.mark.parametrize(
    ("hyperparameters", "field"),
    [
        (Hyperparameters(group_size=1), "group_size"),
        (Hyperparameters(batch_size=3, group_size=3), "batch_size"),  # 9 sequences, 2 ranks
        (Hyperparameters(batch_size=16, mini_batch_size=5), "mini_batch_size"),
        (Hyperparameters(batch_size=2, mini_batch_size=1, group_size=3), "mini_batch_size"),  # 3 sequences, 2 ranks
        (Hyperparameters(micro_batch_tokens=7), "micro_batch_tokens"),
        (Hyperparameters(batch_size=0), "batch_size"),
        (Hyperparameters(mini_batch_size=0), "mini_batch_size"),
        (Hyperparameters(micro_batch_tokens=0), "micro_batch_tokens"),
        (Hyperparameters(batch_size=65_536), "batch_size"),
        (Hyperparameters(learning_rate=0.0), "learning_rate"),
        (Hyperparameters(learning_rate=float("nan")), "learning_rate"),
        (Hyperparameters(temperature=-1.0), "temperature"),
        (Hyperparameters(clip_low=1.5), "clip_low"),
        (Hyperparameters(kl_coefficient=-0.1), "kl_coefficient"),
        (Hyperparameters(gamma=1.1), "gamma"),
        (Hyperparameters(gamma=0.99), "gamma"),  # GRPO's rewards are of whole completions
        (Hyperparameters(gae_lambda=0.95), "gae_lambda"),  # and it has no critic
        (Hyperparameters(warmup_steps=-1), "warmup_steps"),
        (Hyperparameters(max_response_tokens=200_000), "max_response_tokens"),
        (Hyperparameters(critic_learning_rate=1e-3), "critic_learning_rate"),  # GRPO has no critic
        (Hyperparameters(learning_rate_schedule="9"), "learning_rate_schedule"),
        (Hyperparameters(learning_rate_schedule="cosine", learning_rate_end_ratio=2.0), "learning_rate_end_ratio"),
        (Hyperparameters(learning_rate_end_ratio=0.1), "learning_rate_end_ratio"),  # the schedule is constant
        (Hyperparameters(temperature_end=0.0), "temperature_end"),
        (Hyperparameters(kl_in_reward=True), "kl_in_reward"),  # kl_coefficient is 0
        (Hyperparameters(overlong_penalty=-0.5), "overlong_penalty"),
        (Hyperparameters(overlong_penalty=0.5, overlong_buffer=0.0), "overlong_buffer"),
        (Hyperparameters(overlong_buffer=0.5), "overlong_buffer"),  # nothing is punished
        (Hyperparameters(max_staleness=9), "max_staleness"),
        (Hyperparameters(max_staleness=-1), "max_staleness"),
        (Hyperparameters(lora_rank=-1), "lora_rank"),
        (Hyperparameters(lora_rank=8, lora_alpha=0), "lora_alpha"),
        (Hyperparameters(lora_alpha=8), "lora_alpha"),  # all weights are trained
    ],
)
def test_a_hyperparameter_at_fault_is_named(hyperparameters: Hyperparameters, field: str, make_spec: Any) -> None:
    spec = make_spec(hyperparameters=hyperparameters, resources=Resources(accelerators_per_node=2))
    assert set(named(spec)) == {f"spec.hyperparameters.{field}"}


@pytest.mark.parametrize(
    ("algorithm", "changes", "reason"),
    [
        ("grpo", {}, None),
        ("dr_grpo", {}, None),
        ("dapo", {}, None),
        ("grpo", {"environment": None}, "must be 0, or absent, without an environment: there is one answer"),
        ("ppo", {}, "must be 0, or absent: answers are compared by GRPO, DAPO, DR_GRPO, GSPO, CISPO, and not by PPO"),
        ("dapo_steps", {}, "and not by DAPO_STEPS"),
        ("rloo", {}, "and not by RLOO"),
        ("dpo", {"environment": None}, "must be absent: DPO has no use for it"),
        ("grpo", {"hyperparameters": TURNS | {"kl_coefficient": 0.1, "kl_in_reward": True}}, "with kl_in_reward"),
        ("ppo", {"hyperparameters": {"turn_discount": 0.0}}, None),
        ("grpo", {"hyperparameters": {"turn_discount": -0.1}}, "must be from 0 to 1"),
        ("grpo", {"hyperparameters": {"turn_discount": 1.01}}, "must be from 0 to 1"),
        ("grpo", {"reward": Reward(components=(Component("tests_passed"),), combination="gdpo")}, "with gdpo"),
        ("grpo", {"plugins": (Plugin("advantage", "mine"),)}, "a plug-in makes the advantages"),
    ],
)
def test_credit_by_turn_is_of_episodes_that_are_compared(
    algorithm: str, changes: dict[str, Any], reason: str | None, make_spec: Any
) -> None:
    hyper = Hyperparameters(**changes.get("hyperparameters", TURNS))
    more = {"environment": EnvironmentSpec("edits"), **changes, "hyperparameters": hyper}
    faults = named(make_spec(algorithm=algorithm, **more))
    if reason is None:
        assert faults == {}
    else:
        assert reason in faults["spec.hyperparameters.turn_discount"]


@pytest.mark.parametrize(
    ("resources", "fields"),
    [
        (Resources(nodes=4, min_nodes=1), set()),
        (Resources(nodes=4, min_nodes=4), set()),
        (Resources(nodes=4, min_nodes=3), {"resources.min_nodes"}),  # eight sequences for three ranks
        (Resources(nodes=2, min_nodes=3), {"resources.min_nodes"}),
        (Resources(nodes=2, min_nodes=0), {"resources.min_nodes"}),
    ],
)
def test_the_fewest_nodes_share_its_batches(resources: Resources, fields: set[str], make_spec: Any) -> None:
    hyperparameters = Hyperparameters(batch_size=2, group_size=4)
    faults = named(make_spec(hyperparameters=hyperparameters, resources=resources), Limits(accelerators=None))
    assert set(faults) == {f"spec.{field}" for field in fields}


@pytest.mark.parametrize(
    ("changes", "is_fault"),
    [
        ({}, False),
        ({"device": "cpu"}, True),
        ({"engines": 2}, True),
        ({"max_staleness": 1}, True),
        ({"algorithm": "sft"}, True),
    ],
    ids=str,
)
def test_turns_are_taken_on_a_gpu_by_one_engine(changes: dict[str, Any], is_fault: bool, make_spec: Any) -> None:
    given = {"device": "cuda", "engines": 1, "max_staleness": 0, "algorithm": "grpo"} | changes
    resources = Resources(device=given["device"], engines=given["engines"], shares_gpu=True)
    staleness = {"max_staleness": given["max_staleness"]} if given["max_staleness"] else {}
    spec = make_spec(algorithm=given["algorithm"], hyperparameters=Hyperparameters(**staleness), resources=resources)
    faults = named(spec, Limits(devices=("cuda", "cpu")))
    assert ("spec.resources.shares_gpu" in faults) == is_fault


@pytest.mark.parametrize("algorithm", [name for name, row in ALGORITHMS.items() if row.is_online])
def test_every_algorithm_of_rewards_may_learn_beside_generation(algorithm: str, make_spec: Any) -> None:
    assert named(make_spec(algorithm=algorithm, hyperparameters=Hyperparameters(max_staleness=1))) == {}
    faults = named(make_spec(algorithm=algorithm, hyperparameters=Hyperparameters(max_staleness=2)))
    assert bool(faults) == ALGORITHMS[algorithm].replaces_groups


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"max_tokens": 5000}, "max_tokens may make any step the last one"),
        ({"temperature_end": 0.5}, "temperature_end gives each step a temperature of its own"),
        ({"algorithm": "dapo"}, "dapo draws other prompts in a step, once the rewards of all of it are known"),
    ],
)
def test_where_each_step_has_its_own_prompts_none_may_learn_from_another_ones(
    changes: dict[str, Any], reason: str, make_spec: Any
) -> None:
    end = changes.pop("temperature_end", None)
    hyper = Hyperparameters(max_staleness=2, temperature_end=end)
    faults = named(make_spec(hyperparameters=hyper, **changes))
    assert faults == {"spec.hyperparameters.max_staleness": f"must be at most 1: {reason}"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"validate_every": 1}, "must be 0: validate_every is 1, and nothing is made ahead over a checkpoint"),
        ({"checkpoint_every": 1}, "must be 0: checkpoint_every is 1, and nothing is made ahead over a checkpoint"),
        ({"steps": 1}, "must be 0: there is one step, and nothing to be made ahead"),
    ],
)
def test_where_nothing_could_be_made_ahead_staleness_is_refused(changes: Any, reason: str, make_spec: Any) -> None:
    spec = make_spec(hyperparameters=Hyperparameters(max_staleness=1), **changes)
    assert named(spec) == {"spec.hyperparameters.max_staleness": reason}
    assert named(replace(spec, hyperparameters=Hyperparameters(max_staleness=0))) == {}


def test_stale_samples_are_not_learned_from_unweighed(make_spec: Any) -> None:
    unweighed = ("algorithm.rollout_correction.rollout_is=null",)
    spec = make_spec(hyperparameters=Hyperparameters(max_staleness=1), verl_overrides=unweighed)
    assert set(named(spec)) == {"spec.verl_overrides[0]"}
    assert named(replace(spec, hyperparameters=Hyperparameters())) == {}


def test_examples_are_never_stale(make_spec: Any) -> None:
    spec = make_spec(algorithm="sft", hyperparameters=Hyperparameters(max_staleness=1))
    assert set(named(spec)) == {"spec.hyperparameters.max_staleness"}


@pytest.mark.parametrize("algorithm", ["rloo", "dapo"])
def test_a_group_of_one_has_no_baseline(algorithm: str, make_spec: Any) -> None:
    assert named(make_spec(algorithm=algorithm, hyperparameters=Hyperparameters(group_size=1)))
    assert not named(make_spec(algorithm="ppo", hyperparameters=Hyperparameters(group_size=1)))


def test_prompt_and_response_fit_into_the_base(make_spec: Any) -> None:
    too_long = make_spec(hyperparameters=Hyperparameters(max_prompt_tokens=64, max_response_tokens=256))
    assert named(too_long)["spec.hyperparameters.max_response_tokens"].endswith("320 tokens, and there is room for 300")
    assert named(too_long, found=Found()) == {}


def test_a_set_holds_at_least_a_batch(make_spec: Any) -> None:
    validation = ProblemSetRef("composed/validation", limit=1)
    assert set(named(make_spec(), found=found_sets(15, validation, 1))) == {"spec.problems.name"}
    few = make_spec(algorithm="sft", validation_problems=validation, resources=Resources(accelerators_per_node=2))
    assert set(named(few, found=found_sets(1000, validation, 1))) == {"spec.validation_problems.limit"}
    assert named(few, found=found_sets(1000, validation, 2)) == {}


def test_a_pass_holds_a_pair(make_spec: Any) -> None:
    short = Hyperparameters(max_prompt_tokens=100, max_response_tokens=50, micro_batch_tokens=299)
    fault = named(make_spec(algorithm="dpo", hyperparameters=short))["spec.hyperparameters.micro_batch_tokens"]
    assert fault == "must be 300 or more, the tokens of the longest pair"
    assert named(make_spec(algorithm="dpo", hyperparameters=replace(short, micro_batch_tokens=300))) == {}


@pytest.mark.parametrize(
    ("algorithm", "taken"),
    [("ppo", {"gamma", "gae_lambda"}), ("dapo_steps", {"gamma", "gae_lambda"}), ("reinforce_plus_plus", {"gamma"})],
)
def test_discounts_are_of_those_that_discount(algorithm: str, taken: set[str], make_spec: Any) -> None:
    both = Hyperparameters(gamma=0.99, gae_lambda=0.95)
    refused = {"spec.hyperparameters.gamma", "spec.hyperparameters.gae_lambda"}
    assert named(make_spec(algorithm=algorithm, hyperparameters=both)).keys() == refused - {
        f"spec.hyperparameters.{name}" for name in taken
    }
    assert named(make_spec(hyperparameters=Hyperparameters(gamma=1.0, gae_lambda=1.0))) == {}


def test_what_has_less_of_an_effect_than_it_seems_is_noticed(make_spec: Any) -> None:
    def said(**changes: Any) -> list[str]:
        spec = complete(make_spec(**changes), FOUND, LIMITS)
        return [notice[:30] for notice in notices(spec, FOUND)]

    assert said(steps=5) == []
    assert said(steps=4) == []  # by default
    assert said(steps=6, hyperparameters=Hyperparameters(warmup_steps=7)) == ["the warm-up of 7 steps is long"]
    assert said(steps=5, hyperparameters=Hyperparameters(group_size=3)) == ["groups of 3 completions often "]
    assert said(steps=5, hyperparameters=Hyperparameters(group_size=4)) == []
    clip = Hyperparameters(clip_high=0.28)
    assert said(steps=5, hyperparameters=clip) == ["clip_low and clip_high have no"]
    again = ("actor_rollout_ref.actor.ppo_epochs=2",)
    assert said(steps=5, hyperparameters=clip, verl_overrides=again) == []
    assert said(steps=5, hyperparameters=replace(clip, batch_size=16, mini_batch_size=8)) == []
    assert said(steps=30, algorithm="sft") == []
