from dataclasses import asdict
from typing import Any

import pytest

from ratchet_environments import EnvironmentSpec
from ratchet_kit.names import AliasRef, Location, VersionRef
from ratchet_rewards import Component, Reward
from trainer_service.domain.create.defaults import complete
from trainer_service.domain.inputs.found import Found, FoundModel, FoundSet
from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.limits import Limits
from trainer_service.domain.spec.spec import ProblemSetRef, Resources, RunSpec

LIMITS = Limits(accelerators=4)
TESTS_PASSED = Reward(components=(Component("tests_passed"),), combination="weighted_sum")
TESTS_FRACTION = Reward(components=(Component("tests_fraction"),), combination="weighted_sum")
STARTER = FoundModel(VersionRef("starter", 1), "/artifacts/1", 7_000_000, max_tokens=300)


def taken(spec: RunSpec, base: FoundModel | None = STARTER) -> Hyperparameters:
    return complete(spec, Found(base), LIMITS).hyperparameters


@pytest.mark.parametrize("name", list(ALGORITHMS))
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_every_choice_is_made_and_made_once(name: str, ranks: int, make_spec: Any) -> None:
    spec = make_spec(algorithm=name, resources=Resources(accelerators_per_node=ranks))
    completed = complete(spec, Found(STARTER), LIMITS)
    made = asdict(completed.hyperparameters)
    chosen = {name for name, value in made.items() if value is not None}
    assert chosen | ({"lora_alpha"} & ALGORITHMS[name].applicable) == ALGORITHMS[name].applicable
    assert completed.resources == Resources(1, ranks, "cpu", 1)
    assert (completed.loggers, completed.priority) == (("console",), "normal")
    assert completed.reward == {"sft": Reward(), "reward_model": Reward(), "dapo_steps": TESTS_FRACTION}.get(
        name, TESTS_PASSED
    )
    assert completed.kept_groups == (16 if ALGORITHMS[name].is_online else None)
    assert complete(completed, Found(STARTER), LIMITS) == completed


def test_what_was_asked_is_kept_and_the_rest_is_filled_in(make_spec: Any) -> None:
    made = taken(make_spec(hyperparameters=Hyperparameters(batch_size=6, group_size=5, learning_rate=0.25)))
    assert (made.batch_size, made.group_size, made.learning_rate) == (6, 5, 0.25)
    assert made.mini_batch_size == 6  # one update per step


@pytest.mark.parametrize(("algorithm", "rate"), [("grpo", 5e-4), ("sft", 1e-2), ("dpo", 3e-4)])
def test_lora_learns_at_ten_times_the_rate(algorithm: str, rate: float, make_spec: Any) -> None:
    made = taken(make_spec(algorithm=algorithm, hyperparameters=Hyperparameters(lora_rank=8)))
    assert (made.learning_rate, made.lora_alpha) == (rate, 32)
    chosen = Hyperparameters(lora_rank=8, lora_alpha=16, learning_rate=1e-4)
    made = taken(make_spec(algorithm=algorithm, hyperparameters=chosen))
    assert (made.learning_rate, made.lora_alpha) == (1e-4, 16)


@pytest.mark.parametrize(("batch", "ranks", "mini"), [(16, 1, 4), (16, 8, 4), (6, 1, 2), (7, 1, 7), (4, 8, 4)])
def test_gspo_learns_from_a_batch_in_four_updates_where_it_divides(
    batch: int, ranks: int, mini: int, make_spec: Any
) -> None:
    hyper = Hyperparameters(batch_size=batch, group_size=2)
    resources = Resources(accelerators_per_node=ranks)
    assert taken(make_spec(algorithm="gspo", hyperparameters=hyper, resources=resources)).mini_batch_size == mini


def test_a_temperature_goes_to_its_end_on_a_line(make_spec: Any) -> None:
    hyper = Hyperparameters(temperature=1.2, temperature_end=0.6)
    falling = complete(make_spec(steps=4, hyperparameters=hyper), Found(STARTER), LIMITS)
    assert [falling.temperature_at(step) for step in (1, 2, 3, 4)] == pytest.approx([1.2, 1.0, 0.8, 0.6])
    constant = complete(make_spec(hyperparameters=Hyperparameters(temperature=0.9)), Found(STARTER), LIMITS)
    assert [constant.temperature_at(step) for step in (1, 4)] == [0.9, 0.9]
    assert complete(make_spec(steps=1, hyperparameters=hyper), Found(STARTER), LIMITS).temperature_at(1) == 1.2


def test_a_large_model_learns_in_small_steps(make_spec: Any) -> None:
    large = FoundModel(Location("s3://models/coder"), "s3://models/coder", 14_000_000_000)
    assert [taken(make_spec(), base).learning_rate for base in (STARTER, large)] == [5e-5, 1e-6]
    ppo = make_spec(algorithm="ppo")
    assert [taken(ppo, base).critic_learning_rate for base in (STARTER, large)] == [1e-3, 1e-5]


@pytest.mark.parametrize(
    ("base", "asked", "lengths"),
    [
        (STARTER, Hyperparameters(), (150, 150)),
        (STARTER, Hyperparameters(max_prompt_tokens=64), (64, 236)),
        (STARTER, Hyperparameters(max_response_tokens=280), (20, 280)),
        (FoundModel(Location("/coder"), "/coder"), Hyperparameters(), (256, 256)),
    ],
)
def test_prompt_and_response_share_the_room_that_the_base_has(
    base: FoundModel, asked: Hyperparameters, lengths: tuple[int, int], make_spec: Any
) -> None:
    made = taken(make_spec(hyperparameters=asked), base)
    assert (made.max_prompt_tokens, made.max_response_tokens) == lengths


def test_references_are_pinned_to_what_they_lead_to(make_spec: Any) -> None:
    found = Found(
        STARTER,
        FoundSet(ProblemSetRef("composed/train", digest="sha256:t"), 1000),
        FoundSet(ProblemSetRef("composed/validation", digest="sha256:v"), 100),
    )
    completed = complete(make_spec(base=AliasRef("starter", "champion")), found, LIMITS)
    assert completed.base == VersionRef("starter", 1)
    assert (completed.problems.digest, completed.validation_problems) == (
        "sha256:t",
        ProblemSetRef("composed/validation", digest="sha256:v"),
    )


@pytest.mark.parametrize(
    "hyperparameters",
    [Hyperparameters(batch_size=0), Hyperparameters(batch_size=-3), Hyperparameters(learning_rate=float("nan"))],
)
def test_what_is_wrong_or_not_found_is_left_for_validation(hyperparameters: Hyperparameters, make_spec: Any) -> None:
    spec = make_spec(
        base=None, hyperparameters=hyperparameters, resources=Resources(nodes=-1), problems=ProblemSetRef("nothing")
    )
    completed = complete(spec, Found(), LIMITS)
    assert (completed.base, completed.problems, completed.resources.nodes) == (None, ProblemSetRef("nothing"), -1)
    assert completed.hyperparameters.mini_batch_size == max(completed.hyperparameters.batch_size or 0, 1)
    assert complete(make_spec(algorithm="magic"), Found(), LIMITS).hyperparameters == Hyperparameters()


def test_an_environment_has_its_turns(make_spec: Any) -> None:
    assert complete(make_spec(), Found(STARTER), LIMITS).environment is None
    asked = make_spec(environment=EnvironmentSpec("edits"))
    assert complete(asked, Found(STARTER), LIMITS).environment == EnvironmentSpec("edits", 3)


def test_steps_are_rewarded_as_the_spec_says(make_spec: Any) -> None:
    asked = make_spec(algorithm="dapo_steps", reward=Reward("tests_passed"))
    assert complete(asked, Found(STARTER), LIMITS).reward.components == (Component("tests_passed"),)
