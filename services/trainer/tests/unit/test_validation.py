from dataclasses import replace
from typing import Any

import pytest

from ratchet_environments import EnvironmentSpec
from ratchet_kit.faults import Faults
from ratchet_kit.names import AliasRef, AnyModel, VersionRef
from ratchet_rewards import Component, Reward
from trainer_service.domain.algorithms import ALGORITHMS
from trainer_service.domain.curriculum import Curriculum, Kind, Stage
from trainer_service.domain.defaults import complete
from trainer_service.domain.limits import Limits
from trainer_service.domain.plugins import Plugin, PluginKind
from trainer_service.domain.ports import FoundModel, FoundSet
from trainer_service.domain.references import Found
from trainer_service.domain.spec import Hyperparameters, ProblemSetRef, Resources, RunSpec
from trainer_service.domain.thresholds import Thresholds
from trainer_service.domain.validation import check

LIMITS = Limits(accelerators=4)
STARTER_1 = FoundModel(VersionRef("starter", 1), "/artifacts/1", 7_000_000, max_tokens=300)
FOUND = Found(STARTER_1)


def named(spec: RunSpec, limits: Limits = LIMITS, found: Found = FOUND) -> dict[str, str]:
    """The faults of the spec once it is complete."""
    faults = Faults()
    check(complete(spec, found, limits), found, limits, faults.under("spec"))
    return {fault.field: fault.description for fault in faults.violations}


def found_sets(problems: int, validation: ProblemSetRef, validation_size: int) -> Found:
    return replace(
        FOUND,
        problems=FoundSet(ProblemSetRef("composed/train"), problems),
        validation_problems=FoundSet(validation, validation_size),
    )


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_defaults_of_every_algorithm_are_valid(algorithm: str, ranks: int, make_spec: Any) -> None:
    assert named(make_spec(algorithm=algorithm, resources=Resources(accelerators_per_node=ranks))) == {}


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
        (Hyperparameters(micro_batch_size=0), "micro_batch_size"),
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
        (Hyperparameters(learning_rate_schedule="9"), "learning_rate_schedule"),
        (Hyperparameters(learning_rate_schedule="cosine", learning_rate_end_ratio=2.0), "learning_rate_end_ratio"),
        (Hyperparameters(learning_rate_end_ratio=0.1), "learning_rate_end_ratio"),  # the schedule is constant
        (Hyperparameters(temperature_end=0.0), "temperature_end"),
        (Hyperparameters(kl_in_reward=True), "kl_in_reward"),  # kl_coefficient is 0
        (Hyperparameters(overlong_penalty=-0.5), "overlong_penalty"),
        (Hyperparameters(overlong_penalty=0.5, overlong_buffer=0.0), "overlong_buffer"),
        (Hyperparameters(overlong_buffer=0.5), "overlong_buffer"),  # nothing is punished
        (Hyperparameters(max_staleness=2), "max_staleness"),
        (Hyperparameters(max_staleness=-1), "max_staleness"),
    ],
)
def test_a_hyperparameter_at_fault_is_named(hyperparameters: Hyperparameters, field: str, make_spec: Any) -> None:
    spec = make_spec(hyperparameters=hyperparameters, resources=Resources(accelerators_per_node=2))
    assert set(named(spec)) == {f"spec.hyperparameters.{field}"}


@pytest.mark.parametrize("algorithm", [name for name, row in ALGORITHMS.items() if row.is_online])
def test_every_algorithm_of_rewards_may_learn_beside_generation(algorithm: str, make_spec: Any) -> None:
    assert named(make_spec(algorithm=algorithm, hyperparameters=Hyperparameters(max_staleness=1))) == {}


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
    bare = FoundSet(ProblemSetRef("mine.jsonl"), 1000, without_reference="mine/7")
    found = replace(FOUND, problems=bare)
    [(field, said)] = named(make_spec(reward=reward), found=found).items()
    assert field == "spec.reward.components[1].name"
    assert said == "must not be similarity, which needs references: mine/7 of problems has none"


def test_what_has_no_tests_your_own_rewards_judge_alone(make_spec: Any) -> None:
    found = replace(FOUND, problems=FoundSet(ProblemSetRef("sums.jsonl"), 1000, without_tests="sums/7"))
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


def test_gdpo_compares_completions_of_a_group(make_spec: Any) -> None:
    reward = Reward("balanced", combination="gdpo")
    assert named(make_spec(reward=reward)) == {}
    assert set(named(make_spec(reward=reward, algorithm="ppo"))) == {"spec.reward.combination"}
    unused = make_spec(reward=reward, verl_overrides=("algorithm.norm_adv_by_std_in_grpo=false",))
    assert set(named(unused)) == {"spec.verl_overrides[0]"}


def test_what_an_algorithm_is_by_no_plugin_takes_the_place_of(make_spec: Any) -> None:
    def at_fault(algorithm: str, kind: PluginKind) -> bool:
        return "spec.plugins[0].kind" in named(make_spec(algorithm=algorithm, plugins=(Plugin(kind, "own"),)))

    assert [at_fault("gspo", PluginKind.LOSS), at_fault("cispo", PluginKind.LOSS)] == [True, True]
    assert [at_fault("remax", PluginKind.ADVANTAGE), at_fault("remax", PluginKind.LOSS)] == [True, False]
    assert [at_fault("dr_grpo", PluginKind.LOSS), at_fault("gspo", PluginKind.ADVANTAGE)] == [False, False]


def test_dr_grpo_divides_by_no_deviation(make_spec: Any) -> None:
    gdpo = make_spec(algorithm="dr_grpo", reward=Reward("balanced", combination="gdpo"))
    assert set(named(gdpo)) == {"spec.reward.combination"}


def test_a_cluster_decides_itself_how_many_accelerators_it_has(make_spec: Any) -> None:
    spec = make_spec(resources=Resources(nodes=2, accelerators_per_node=8))
    assert named(spec, Limits(accelerators=None, devices=("cuda",))) == {}
    assert len(named(spec, Limits(accelerators=2))) == 2


def test_prompt_and_response_fit_into_the_base(make_spec: Any) -> None:
    too_long = make_spec(hyperparameters=Hyperparameters(max_prompt_tokens=64, max_response_tokens=256))
    assert named(too_long)["spec.hyperparameters.max_response_tokens"].endswith("320 tokens, and there is room for 300")
    assert named(too_long, found=Found()) == {}


def test_problems_that_nothing_can_be_learned_from_are_named(make_spec: Any) -> None:
    faults = tuple(f"p/{number}: tests[0].check: never calls the program" for number in range(7))
    found = replace(FOUND, problems=FoundSet(ProblemSetRef("mine.jsonl"), 1000, faults=faults))
    [said] = named(make_spec(), found=found).items()
    assert said[0] == "spec.problems.name"
    assert said[1].startswith("holds problems that nothing can be learned from: p/0: tests[0].check: never calls the")
    assert said[1].endswith("p/4: tests[0].check: never calls the program; and 2 more")
    assert named(make_spec(algorithm="sft"), found=found) == {}


def test_a_set_holds_at_least_a_batch(make_spec: Any) -> None:
    validation = ProblemSetRef("composed/validation", limit=1)
    assert set(named(make_spec(), found=found_sets(15, validation, 1))) == {"spec.problems.name"}
    few = make_spec(algorithm="sft", validation_problems=validation, resources=Resources(accelerators_per_node=2))
    assert set(named(few, found=found_sets(1000, validation, 1))) == {"spec.validation_problems.limit"}
    assert named(few, found=found_sets(1000, validation, 2)) == {}


@pytest.mark.parametrize(
    ("resources", "field"),
    [
        (Resources(nodes=0), "nodes"),
        (Resources(accelerators_per_node=0), "accelerators_per_node"),
        (Resources(nodes=-1, accelerators_per_node=-1), "nodes"),
        (Resources(device="cuda"), "device"),
    ],
)
def test_resources_at_fault_are_named(resources: Resources, field: str, make_spec: Any) -> None:
    assert f"spec.resources.{field}" in named(make_spec(resources=resources))


def test_the_base_decides_the_form_of_prompts_unless_the_spec_does(make_spec: Any) -> None:
    bare = replace(FOUND, base=replace(FOUND.base, has_chat_template=False))
    assert complete(make_spec(), FOUND, LIMITS).prompt_form == "chat"
    assert complete(make_spec(), bare, LIMITS).prompt_form == "completion"
    assert complete(make_spec(prompt_form="completion"), FOUND, LIMITS).prompt_form == "completion"
    assert named(make_spec(), found=bare) == named(make_spec(prompt_form="completion")) == {}


def test_a_chat_without_a_chat_template_is_refused(make_spec: Any) -> None:
    bare = replace(FOUND, base=replace(FOUND.base, has_chat_template=False))
    assert named(make_spec(prompt_form="chat"), found=bare) == {
        "spec.prompt_form": "must be COMPLETION, or absent: the base has no chat template"
    }
    assert "CHAT, COMPLETION" in named(make_spec(prompt_form="9"))["spec.prompt_form"]


KINDS = tuple(Kind(1 + place % 4, ("lists",) if place < 20 else ()) for place in range(100))
OF_KINDS = replace(FOUND, problems=FoundSet(ProblemSetRef("mine.jsonl"), 100, kinds=KINDS))


def test_a_curriculum_draws_a_share_alike_unless_groups_tell_nothing(make_spec: Any) -> None:
    shares = {
        algorithm: complete(make_spec(algorithm=algorithm, curriculum=Curriculum()), FOUND, LIMITS).curriculum
        for algorithm in ("grpo", "ppo")
    }
    assert shares == {"grpo": Curriculum(0.1), "ppo": Curriculum(1.0)}
    staged = Curriculum(stages=(Stage(max_difficulty=2, tags=("lists",), steps=3), Stage(pass_rate=0.5), Stage()))
    few = Hyperparameters(batch_size=8)
    assert named(make_spec(curriculum=staged, hyperparameters=few), found=OF_KINDS) == {}


@pytest.mark.parametrize(
    ("curriculum", "fields"),
    [
        (Curriculum(0.0), {"exploration"}),
        (Curriculum(1.5), {"exploration"}),
        (Curriculum(stages=(Stage(),)), set()),
        (Curriculum(stages=(Stage(), Stage())), {"stages[0].steps"}),
        (Curriculum(stages=(Stage(steps=2), Stage(steps=2))), {"stages[1].steps"}),
        (Curriculum(stages=(Stage(steps=2), Stage(pass_rate=0.5))), {"stages[1].pass_rate"}),
        (Curriculum(stages=(Stage(pass_rate=1.5), Stage())), {"stages[0].pass_rate"}),
        (Curriculum(stages=(Stage(steps=10), Stage())), {"stages"}),
        (Curriculum(stages=(Stage(min_difficulty=5),)), {"stages[0].min_difficulty"}),
        (Curriculum(stages=(Stage(min_difficulty=3, max_difficulty=2),)), {"stages[0].max_difficulty"}),
        (Curriculum(stages=(Stage(tags=("graphs",)),)), {"stages[0].tags"}),
    ],
)
def test_what_a_curriculum_cannot_be_is_named(curriculum: Curriculum, fields: set[str], make_spec: Any) -> None:
    spec = make_spec(curriculum=curriculum, steps=10)
    assert set(named(spec, found=OF_KINDS)) == {f"spec.curriculum.{field}" for field in fields}


def test_a_stage_without_problems_says_what_there_are(make_spec: Any) -> None:
    spec = make_spec(curriculum=Curriculum(stages=(Stage(min_difficulty=4, max_difficulty=5, tags=("text",)),)))
    assert named(spec, found=OF_KINDS)["spec.curriculum.stages[0].tags"] == (
        "must select 16 problems or more, a step's, not 0: of difficulties there are 25 of 1, 25 of 2, 25 of 3, 25 of"
        " 4; of tags lists"
    )


def test_a_curriculum_is_for_those_that_draw_problems(make_spec: Any) -> None:
    for algorithm in ("sft", "dpo"):
        said = named(make_spec(algorithm=algorithm, curriculum=Curriculum()))["spec.curriculum"]
        assert said == f"must be absent: {algorithm.upper()} goes through its data in passes"
    assert set(named(make_spec(algorithm="ppo", curriculum=Curriculum(0.5)))) == {"spec.curriculum.exploration"}
    own = Plugin(PluginKind.SAMPLER, "easy_first")
    assert "spec.curriculum" in named(make_spec(curriculum=Curriculum(), plugins=(own,)))


def test_dpo_has_pairs_and_nothing_else_has(make_spec: Any) -> None:
    pairs = ProblemSetRef("pairs.jsonl")
    assert set(named(make_spec(pairs=pairs))) == {"spec.pairs"}
    both = make_spec(algorithm="dpo", problems=ProblemSetRef("composed/train"))
    assert set(named(both)) == {"spec.problems"}
    few = replace(FOUND, pairs=FoundSet(pairs, 31))
    assert named(make_spec(algorithm="dpo"), found=few) == {
        "spec.pairs.name": "must hold more pairs: it has 31, and batch_size is 32"
    }
    beta = make_spec(hyperparameters=Hyperparameters(dpo_beta=0.1))
    assert named(beta)["spec.hyperparameters.dpo_beta"] == "must be absent: GRPO has no use for it"
    none = make_spec(algorithm="dpo", hyperparameters=Hyperparameters(dpo_beta=0.0))
    assert set(named(none)) == {"spec.hyperparameters.dpo_beta"}


def test_pairs_are_put_as_they_were_written(make_spec: Any) -> None:
    asked = replace(FOUND, pairs=FoundSet(ProblemSetRef("pairs.jsonl"), 100, form="chat"))
    assert named(make_spec(algorithm="dpo"), found=asked) == {}
    assert (
        "the pairs are conversations"
        in named(make_spec(algorithm="dpo", prompt_form="completion"), found=asked)["spec.prompt_form"]
    )
    bare = replace(FOUND.base, has_chat_template=False) if FOUND.base else None
    assert set(named(make_spec(algorithm="dpo"), found=replace(asked, base=bare))) == {"spec.pairs.name"}
    texts = replace(FOUND, pairs=FoundSet(ProblemSetRef("pairs.jsonl"), 100, form="completion"))
    assert named(make_spec(algorithm="dpo"), found=texts) == {}
    assert set(named(make_spec(algorithm="dpo", prompt_form="chat"), found=texts)) == {"spec.prompt_form"}
    either = replace(FOUND, base=bare, pairs=FoundSet(ProblemSetRef("pairs.jsonl"), 100))
    assert named(make_spec(algorithm="dpo"), found=either) == {}


def test_a_pass_holds_a_pair(make_spec: Any) -> None:
    short = Hyperparameters(max_prompt_tokens=100, max_response_tokens=50, micro_batch_tokens=299)
    fault = named(make_spec(algorithm="dpo", hyperparameters=short))["spec.hyperparameters.micro_batch_tokens"]
    assert fault == "must be 300 or more, the tokens of the longest pair"
    assert named(make_spec(algorithm="dpo", hyperparameters=replace(short, micro_batch_tokens=300))) == {}


def test_the_reward_of_dpo_is_what_its_validation_measures(make_spec: Any) -> None:
    taken = complete(make_spec(algorithm="dpo"), FOUND, LIMITS).reward
    assert taken == complete(make_spec(), FOUND, LIMITS).reward != Reward()
    unknown = make_spec(algorithm="dpo", reward=Reward("loudest"))
    assert set(named(unknown)) == {"spec.reward.name"}


def test_a_pair_stays_on_one_rank(make_spec: Any) -> None:
    spec = make_spec(algorithm="dpo", verl_overrides=("trainer.balance_batch=true", "engine.param_offload=true"))
    assert set(named(spec)) == {"spec.verl_overrides[0]"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"profile_steps": (0,)}, "spec.profile_steps[0]"),
        ({"profile_steps": (1, 5)}, "spec.profile_steps[1]"),
        ({"profile_steps": tuple(range(1, 12)), "steps": 20}, "spec.profile_steps"),
        ({"profile_steps": (1,), "algorithm": "sft"}, "spec.profile_steps"),
        ({"experiment": "../up"}, "spec.experiment"),
        ({"experiment": "a/b"}, "spec.experiment"),
    ],
)
def test_what_is_traced_and_where_it_is_shown_is_checked(changes: Any, field: str, make_spec: Any) -> None:
    assert field in named(make_spec(**changes))


def test_steps_may_be_traced_and_an_experiment_has_a_name(make_spec: Any) -> None:
    assert not {"spec.profile_steps", "spec.experiment"} & set(
        named(make_spec(profile_steps=(2, 3), experiment="a b-1"))
    )


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
    assert "DAPO_STEPS rewards what a reward gains" in gdpo["spec.reward.combination"]
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


def pairs(digest: str) -> FoundSet:
    return FoundSet(ProblemSetRef(f"{digest}.jsonl", digest=digest), 100)


def test_a_reward_model_learns_and_is_validated_on_pairs(make_spec: Any) -> None:
    found = replace(FOUND, pairs=pairs("p"), validation_pairs=pairs("v"))
    spec = make_spec(algorithm="reward_model", validation_pairs=ProblemSetRef("v.jsonl"), output_model="judge")
    assert named(spec, found=found) == {}
    assert complete(spec, found, LIMITS).validation_pairs == ProblemSetRef("v.jsonl", digest="v")
    assert named(spec, found=replace(found, validation_pairs=pairs("p"))).keys() == {"spec.validation_pairs.name"}
    wrong = replace(
        spec,
        base=VersionRef("starter", 1),
        problems=ProblemSetRef("composed/train"),
        validation_problems=ProblemSetRef("composed/validation"),
        reward=Reward("tests_passed"),
        environment=EnvironmentSpec("edits"),
        output_model="starter",
        hyperparameters=Hyperparameters(dpo_beta=0.1),
    )
    assert named(wrong, found=replace(found, base=replace(STARTER_1, has_chat_template=False))).keys() == {
        "spec.base",
        "spec.problems",
        "spec.validation_problems",
        "spec.reward.name",
        "spec.environment",
        "spec.output_model",
        "spec.hyperparameters.dpo_beta",
    }
    assert named(make_spec(validation_pairs=ProblemSetRef("v.jsonl"))).keys() == {"spec.validation_pairs"}
