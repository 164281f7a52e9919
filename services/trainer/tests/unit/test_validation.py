from typing import Any

import pytest

from trainer_service.domain import defaults
from trainer_service.domain.platform import BaseModel, Platform, Surroundings
from trainer_service.domain.spec import Algorithm, Hyperparameters, ModelRef, ProblemSetRef, Resources, RunSpec
from trainer_service.domain.validation import alias_parts, faults, version_parts

PLATFORM = Platform(accelerators=4)
BASE = BaseModel("starter@1", "/artifacts/1", 7_000_000, max_tokens=300)


def named(spec: RunSpec, platform: Platform = PLATFORM, around: Surroundings = Surroundings(BASE)) -> dict[str, str]:
    return {fault.field: fault.description for fault in faults(spec, platform, around)}


@pytest.mark.parametrize("algorithm", list(Algorithm))
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_defaults_of_every_algorithm_are_valid(algorithm: Algorithm, ranks: int, make_spec: Any) -> None:
    spec = make_spec(algorithm=algorithm, resources=Resources(accelerators_per_node=ranks))
    assert named(spec) == {}
    complete = defaults.complete(spec, BASE, PLATFORM)
    assert named(complete) == {}
    taken = vars(complete.hyperparameters)
    assert {name for name, value in taken.items() if value is not None} == defaults.applicable(algorithm)
    assert defaults.complete(complete, BASE, PLATFORM) == complete


def test_every_fault_is_named_at_once(make_spec: Any) -> None:
    spec = RunSpec(
        base=None,
        algorithm="99",
        problems=ProblemSetRef("", limit=-1),
        steps=0,
        reward="loudest",
        resources=Resources(nodes=2, accelerators_per_node=8, device="tpu"),
        seed=-1,
        loggers=("console", "paper", "console"),
        output_model="Not A Name",
        priority="7",
        verl_overrides=("no equals sign", "trainer.save_freq=2"),
        validate_every=-1,
    )
    assert set(named(spec)) == {
        "spec.base",
        "spec.algorithm",
        "spec.problems.name",
        "spec.problems.limit",
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
        "spec.validate_every",
    }


@pytest.mark.parametrize(
    ("hyperparameters", "field"),
    [
        (Hyperparameters(group_size=1), "group_size"),
        (Hyperparameters(batch_size=3, group_size=3), "batch_size"),  # 9 sequences, 2 ranks
        (Hyperparameters(batch_size=16, mini_batch_size=5), "mini_batch_size"),
        (Hyperparameters(batch_size=2, mini_batch_size=1, group_size=3), "mini_batch_size"),  # 3 sequences, 2 ranks
        (Hyperparameters(micro_batch_size=7), "micro_batch_size"),
        (Hyperparameters(batch_size=0), "batch_size"),
        (Hyperparameters(batch_size=65_536), "batch_size"),
        (Hyperparameters(learning_rate=0.0), "learning_rate"),
        (Hyperparameters(learning_rate=float("nan")), "learning_rate"),
        (Hyperparameters(temperature=-1.0), "temperature"),
        (Hyperparameters(clip_low=1.5), "clip_low"),
        (Hyperparameters(kl_coefficient=-0.1), "kl_coefficient"),
        (Hyperparameters(gamma=1.1), "gamma"),
        (Hyperparameters(warmup_steps=-1), "warmup_steps"),
        (Hyperparameters(max_response_tokens=200_000), "max_response_tokens"),
        (Hyperparameters(critic_learning_rate=1e-3), "critic_learning_rate"),  # GRPO has no critic
    ],
)
def test_a_hyperparameter_at_fault_is_named(hyperparameters: Hyperparameters, field: str, make_spec: Any) -> None:
    spec = make_spec(hyperparameters=hyperparameters, resources=Resources(accelerators_per_node=2))
    assert set(named(spec)) == {f"spec.hyperparameters.{field}"}


@pytest.mark.parametrize("algorithm", [Algorithm.RLOO, Algorithm.DAPO])
def test_a_group_of_one_has_no_baseline(algorithm: Algorithm, make_spec: Any) -> None:
    assert named(make_spec(algorithm=algorithm, hyperparameters=Hyperparameters(group_size=1)))
    assert not named(make_spec(algorithm=Algorithm.PPO, hyperparameters=Hyperparameters(group_size=1)))


def test_sft_takes_no_reward_and_no_group(make_spec: Any) -> None:
    spec = make_spec(algorithm=Algorithm.SFT, reward="tests_passed", hyperparameters=Hyperparameters(group_size=4))
    assert set(named(spec)) == {"spec.reward.name", "spec.hyperparameters.group_size"}


@pytest.mark.parametrize(
    ("base", "field"),
    [
        (ModelRef("version", "starter"), "spec.base.version"),
        (ModelRef("version", "starter:champion"), "spec.base.version"),
        (ModelRef("alias", "starter@1"), "spec.base.alias"),
        (ModelRef("path", " "), "spec.base"),
    ],
)
def test_a_base_that_cannot_be_one_is_named(base: ModelRef, field: str, make_spec: Any) -> None:
    assert set(named(make_spec(base=base))) == {field}


def test_both_forms_of_a_version_are_read() -> None:
    assert version_parts("starter@12") == version_parts("models/starter/versions/12") == ("starter", 12)
    assert alias_parts("starter:champion") == ("starter", "champion")
    assert version_parts("starter@") is alias_parts("starter") is None


def test_a_cluster_decides_itself_how_many_accelerators_it_has(make_spec: Any) -> None:
    spec = make_spec(resources=Resources(nodes=2, accelerators_per_node=8))
    assert named(spec, Platform(accelerators=None, devices=("cuda",))) == {}
    assert len(named(spec, Platform(accelerators=2))) == 2


def test_what_was_asked_is_kept_and_the_rest_is_filled_in(make_spec: Any) -> None:
    spec = make_spec(hyperparameters=Hyperparameters(batch_size=6, group_size=5, learning_rate=0.25))
    taken = defaults.complete(spec, BASE, PLATFORM).hyperparameters
    assert (taken.batch_size, taken.group_size, taken.learning_rate) == (6, 5, 0.25)
    assert (taken.mini_batch_size, taken.micro_batch_size) == (6, 30)  # one update a step; 30 divides 30


def test_a_large_model_learns_in_small_steps(make_spec: Any) -> None:
    large = BaseModel("coder@1", "s3://models/coder", 14_000_000_000)
    rates = [defaults.complete(make_spec(), base, PLATFORM).hyperparameters.learning_rate for base in (BASE, large)]
    assert rates == [5e-5, 1e-6]


def test_prompt_and_response_share_the_room_that_the_base_has(make_spec: Any) -> None:
    def lengths(base: BaseModel, **asked: int) -> tuple[int | None, int | None]:
        spec = make_spec(hyperparameters=Hyperparameters(**asked))
        taken = defaults.complete(spec, base, PLATFORM).hyperparameters
        return taken.max_prompt_tokens, taken.max_response_tokens

    assert lengths(BASE) == (150, 150)
    assert lengths(BASE, max_prompt_tokens=64) == (64, 236)
    assert lengths(BASE, max_response_tokens=280) == (20, 280)
    assert lengths(BaseModel("coder", "/coder")) == (256, 256)
    too_long = make_spec(hyperparameters=Hyperparameters(max_prompt_tokens=64, max_response_tokens=256))
    assert named(too_long)["spec.hyperparameters.max_response_tokens"].endswith("the base has room for 300")
    assert named(too_long, around=Surroundings()) == {}


def test_a_set_holds_at_least_a_batch(make_spec: Any) -> None:
    small = Surroundings(BASE, problems=15, validation_problems=1)
    assert set(named(make_spec(), around=small)) == {"spec.problems.name"}
    few = make_spec(algorithm=Algorithm.SFT, validation_problems=ProblemSetRef("composed/validation", limit=16))
    assert set(named(few, around=Surroundings(BASE, 1000, 16))) == {"spec.validation_problems.limit"}
    assert named(few, around=Surroundings(BASE, 1000, 32)) == {}


def test_a_set_with_splits_is_validated_on_its_own(make_spec: Any) -> None:
    assert defaults.complete(make_spec(), BASE, PLATFORM).validation_problems == ProblemSetRef("composed/validation")
    own = make_spec(problems=ProblemSetRef("/data/train.jsonl"))
    assert defaults.complete(own, BASE, PLATFORM).validation_problems is None
