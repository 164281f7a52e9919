"""What answers earn, and what judges them."""

from dataclasses import replace
from typing import Any

import pytest

from ratchet_environments import EnvironmentSpec
from ratchet_kit.names import AliasRef, AnyModel, VersionRef
from ratchet_rewards import Component, Reward
from trainer_service.domain.create.defaults import complete
from trainer_service.domain.inputs.found import FoundModel, FoundSet, Gap
from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.curriculum import Kind
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.plugins import Plugin, PluginKind
from trainer_service.domain.spec.spec import ProblemSetRef
from trainer_service.verl.algorithms import VERL_ALGORITHMS

from .faults import FOUND, LIMITS, named


def test_sft_takes_no_reward_and_no_group(make_spec: Any) -> None:
    spec = make_spec(algorithm="sft", reward=Reward("tests_passed"), hyperparameters=Hyperparameters(group_size=4))
    assert set(named(spec)) == {"spec.reward.name", "spec.hyperparameters.group_size"}


def test_components_of_a_reward_at_fault_are_named(make_spec: Any) -> None:
    components = (Component("style", 0.2, {"rules": 1.0}), Component("tests"), Component("style"))
    assert set(named(make_spec(reward=Reward(components=components)))) == {
        "spec.reward.components[0].parameters.rules",
        "spec.reward.components[1].name",
        "spec.reward.components[2].name",
    }


def test_what_compares_with_references_needs_them(make_spec: Any) -> None:
    reward = Reward(components=(Component("tests_passed"), Component("similarity"), Component("length")))
    bare = FoundSet(
        ProblemSetRef("mine.jsonl"), 1000, gaps=(Gap("mine/7", (), reference=True, tests=False, program=False),)
    )
    found = replace(FOUND, problems=bare)
    [(field, said)] = named(make_spec(reward=reward), found=found).items()
    assert field == "spec.reward.components[1].name"
    assert said == "must not be similarity, which needs references: mine/7 of problems has none"


def test_what_has_no_tests_your_own_rewards_judge_alone(make_spec: Any) -> None:
    found = replace(
        FOUND,
        problems=FoundSet(
            ProblemSetRef("sums.jsonl"), 1000, gaps=(Gap("sums/7", (), reference=False, tests=True, program=False),)
        ),
    )
    own = Component("sums", program="print([1])")
    assert named(make_spec(reward=Reward(components=(own,))), found=found) == {}
    reward = Reward(components=(Component("tests_passed"), replace(own, passing_only=True), Component("efficiency")))
    said = named(make_spec(reward=reward), found=found)
    assert set(said) == {
        "spec.reward.components[0].name",
        "spec.reward.components[1].passing_only",
        "spec.reward.components[2].name",
    }
    assert said["spec.reward.components[0].name"].startswith(
        "must not be tests_passed, which needs tests: sums/7 of problems has none; a reward of your own can judge it"
    )


def test_a_component_counts_for_the_problems_with_its_tags(make_spec: Any) -> None:
    code, maths = Kind(1, ("code",)), Kind(1, ("maths", "easy"))
    gaps = (Gap("sums/7", maths.tags, reference=True, tests=False, program=True),)
    found = replace(FOUND, problems=FoundSet(ProblemSetRef("mixed.jsonl"), 1000, gaps=gaps, kinds=(code, maths)))
    tests, quick = Component("tests_passed"), Component("efficiency", 0.1)
    assert set(named(make_spec(reward=Reward(components=(tests, quick))), found=found)) == {
        "spec.reward.components[1].name"
    }
    of_code = replace(quick, tags=("code",))
    assert named(make_spec(reward=Reward(components=(tests, of_code))), found=found) == {}
    misspelt = replace(quick, tags=("code", "coed"))
    [(field, said)] = named(make_spec(reward=Reward(components=(tests, misspelt))), found=found).items()
    assert (field, said) == ("spec.reward.components[1].tags", "must be tags of the problems: none has coed")
    [(field, said)] = named(make_spec(reward=Reward(components=(of_code,))), found=found).items()
    assert field == "spec.reward.components"
    assert said.endswith("of problems none does for those with the tags maths, easy")


def test_gdpo_compares_completions_of_a_group(make_spec: Any) -> None:
    reward = Reward("balanced", combination="gdpo")
    assert named(make_spec(reward=reward)) == {}
    assert set(named(make_spec(reward=reward, algorithm="ppo"))) == {"spec.reward.combination"}
    unused = make_spec(reward=reward, verl_overrides=("algorithm.norm_adv_by_std_in_grpo=false",))
    assert set(named(unused)) == {"spec.verl_overrides[0]"}


def test_dr_grpo_divides_by_no_deviation(make_spec: Any) -> None:
    gdpo = make_spec(algorithm="dr_grpo", reward=Reward("balanced", combination="gdpo"))
    assert set(named(gdpo)) == {"spec.reward.combination"}


def test_the_reward_of_dpo_is_what_its_validation_measures(make_spec: Any) -> None:
    taken = complete(make_spec(algorithm="dpo"), FOUND, LIMITS).reward
    assert taken == complete(make_spec(), FOUND, LIMITS).reward != Reward()
    unknown = make_spec(algorithm="dpo", reward=Reward("loudest"))
    assert set(named(unknown)) == {"spec.reward.name"}


def test_an_environment_is_one_that_there_is_and_needs_a_chat(make_spec: Any) -> None:
    edits = EnvironmentSpec("edits")
    for algorithm in ("grpo", "dapo_steps", "remax", "dpo"):
        assert named(make_spec(algorithm=algorithm, environment=edits)) == {}
    wrong = named(make_spec(environment=EnvironmentSpec("edit", 17)))
    assert set(wrong) == {"spec.environment.name", "spec.environment.max_turns"}
    assert set(named(make_spec(environment=edits, prompt_form="completion"))) == {"spec.environment"}
    assert set(named(make_spec(algorithm="sft", environment=edits))) == {"spec.environment"}


def test_gains_are_of_a_reward_that_each_answer_has_by_itself(make_spec: Any) -> None:
    gdpo = named(make_spec(algorithm="dapo_steps", reward=Reward("tests_fraction", combination="gdpo")))
    assert "DAPO_STEPS rewards gains" in gdpo["spec.reward.combination"]
    alone = named(make_spec(algorithm="dapo_steps", hyperparameters=Hyperparameters(group_size=1)))
    assert set(alone) == {"spec.hyperparameters.group_size"}
    advantage = Plugin(PluginKind.ADVANTAGE, "own")
    assert "critic" in named(make_spec(algorithm="dapo_steps", plugins=(advantage,)))["spec.plugins[0].kind"]


JUDGE = FoundModel(VersionRef("judge", 2), "/artifacts/judge/2", 7_000_000, max_tokens=300, outputs=1)


def rewarded(model: AnyModel = AliasRef("judge", "best"), **parameters: float) -> Reward:
    return Reward(components=(Component("tests_passed"), Component("preference", 0.3, parameters, model=model)))


def test_a_reward_model_is_pinned_to_the_version_that_was_found(make_spec: Any) -> None:
    found, spec = replace(FOUND, reward_model=JUDGE), make_spec(reward=rewarded(scale=2.0))
    assert named(spec, found=found) == {}
    assert complete(spec, found, LIMITS).reward.model == VersionRef("judge", 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"outputs": 0}, "judge@2 writes text"),
        ({"outputs": 3}, "judge@2 has 3 outputs"),
        ({"has_tokenizer": False}, "judge@2 has no tokenizer.json"),
        ({"has_chat_template": False}, "must have a chat template"),
        ({"max_tokens": 200}, "300 tokens: judge@2 has it for 200"),
    ],
)
def test_what_is_no_reward_model_is_refused(change: dict[str, Any], said: str, make_spec: Any) -> None:
    found = replace(FOUND, reward_model=replace(JUDGE, **change))
    faults = named(make_spec(reward=rewarded()), found=found)
    assert set(faults) == {"spec.reward.components[1].model"}
    assert said in faults["spec.reward.components[1].model"]


def test_a_reward_model_is_no_base(make_spec: Any) -> None:
    assert set(named(make_spec(), found=replace(FOUND, base=JUDGE))) == {"spec.base"}


def test_episodes_on_task_folders_are_compared_as_wholes(make_spec: Any) -> None:
    harness = EnvironmentSpec("harness", command=("python", "agent.py"))
    compared = {name for name, one in ALGORITHMS.items() if one.compares_ends}
    assert compared == {name for name, one in VERL_ALGORITHMS.items() if one.estimator == "grpo"}
    for algorithm in compared:
        assert named(make_spec(algorithm=algorithm, environment=harness)) == {}
    for algorithm in ("ppo", "rloo", "remax", "dapo_steps", "reinforce_plus_plus"):
        said = named(make_spec(algorithm=algorithm, environment=harness))
        assert said["spec.algorithm"].startswith("must be one of GRPO, DAPO,")


def test_who_plays_on_task_folders_asks_the_model_itself(make_spec: Any) -> None:
    tools = EnvironmentSpec("tools")
    searching = make_spec(environment=EnvironmentSpec("tools", command=("mcp:search",)))
    assert "(RATCHET_TOOL_SERVERS: none), not 'search'" in named(searching)["spec.environment.command"]
    assert named(searching, replace(LIMITS, tool_servers=("search",))) == {}
    wrong = make_spec(
        environment=tools,
        system="Be brief.",
        follow_problems=True,
        hyperparameters=Hyperparameters(unrewarded_tests=0.5),
        reward=Reward(components=(Component("tests_fraction", 1.0), Component("style", 0.1))),
    )
    own = "must be left out: who plays on task folders says itself what it asks the model"
    said = named(wrong)
    assert said["spec.system"] == own
    assert "must be false: task folders are not followed" in said["spec.follow_problems"]
    assert said["spec.hyperparameters.unrewarded_tests"].startswith("must be absent: a task's verifier judges")
    assert said["spec.reward.components[1].name"].startswith("must not be style, which measures programs")
    assert "spec.reward.components[0].name" not in said
    loud = Component("loud", 1.0, program="def score(problem, samples): return [0.0 for one in samples]")
    own_reward = Reward(components=(Component("tests_fraction", 1.0), loud), combination="weighted_sum")
    assert named(make_spec(environment=tools, reward=own_reward)) == {}
