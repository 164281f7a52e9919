"""What a study's file says: axes that are crossed, seeds, ranges; and each fault by its line."""

from pathlib import Path

import pytest

from ratchet.trainer.v1 import trainer_pb2
from ratchet_workflows.errors import UsageError
from ratchet_workflows.notation.yaml_files import YamlFile
from ratchet_workflows.studies.plan import Plan

EXAMPLES = Path(__file__).parents[4] / "examples"
HEAD = """\
train: {base: starter, problems: composed/train, steps: 6, hyperparameters: {batch_size: 8}}
evaluate: {problems: composed/test}
"""
SEARCH = "search: {trials: 3, ranges: {hyperparameters.learning_rate: {loguniform: [1e-6, 1e-3]}}}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "study.yaml"


def plan_of(file: Path, text: str) -> Plan:
    file.write_text(HEAD + text)
    return Plan(YamlFile(file))


def test_without_axes_there_is_the_run_as_written_with_each_seed(file: Path) -> None:
    plan = plan_of(file, "seeds: 3\n")
    assert [one.name for one in plan.variants] == ["as written"]
    assert plan.seeds == [0, 1, 2]
    spec = plan.variants[0].run_of(2, {"starter": "starter@4"})
    assert (spec.seed, spec.base.version.number, spec.steps) == (2, 4, 6)


def test_a_system_is_of_all_and_may_vary(file: Path) -> None:
    plan = plan_of(file, "system: Be brief.\nvary: {system: [Be kind.]}\n")
    assert (plan.train.system, plan.evaluate.system) == ("Be brief.", "Be brief.")
    assert [one.spec.system for one in plan.variants] == ["Be kind."]
    assert plan_of(file, "system: Be brief.\n").variants[0].spec.system == "Be brief."


def test_axes_are_crossed_and_a_label_changes_several_fields(file: Path) -> None:
    plan = plan_of(
        file,
        "vary:\n"
        "  hyperparameters.learning_rate: [1e-5, 5e-5]\n"
        "  method:\n"
        "    grpo: {algorithm: grpo}\n"
        "    ppo: {algorithm: ppo, hyperparameters: {group_size: 1, batch_size: 32}}\n",
    )
    assert [one.name for one in plan.variants] == [
        "learning_rate 1e-5, grpo",
        "learning_rate 1e-5, ppo",
        "learning_rate 5e-5, grpo",
        "learning_rate 5e-5, ppo",
    ]
    ppo = plan.variants[3].spec
    assert ppo.algorithm == trainer_pb2.ALGORITHM_PPO
    hyper = ppo.hyperparameters
    assert (hyper.learning_rate, hyper.group_size, hyper.batch_size) == (5e-5, 1, 32)
    assert plan.variants[2].spec.hyperparameters.batch_size == 8  # one variant changes nothing of another


def test_a_message_without_fields_and_bases_can_vary(file: Path) -> None:
    folder = file.parent  # of a model, say
    plan = plan_of(
        file, f"vary:\n  curriculum: {{plain: {{}}, weighted: {{curriculum: {{}}}}}}\n  base: [starter, {folder}]\n"
    )
    assert [one.name for one in plan.variants] == [
        "plain, base starter",
        f"plain, base {folder}",
        "weighted, base starter",
        f"weighted, base {folder}",
    ]
    assert [one.spec.HasField("curriculum") for one in plan.variants] == [False, False, True, True]
    assert plan.variants[3].spec.base.uri == str(folder)


def test_a_list_or_a_text_is_replaced_whole(file: Path) -> None:
    plan = plan_of(file, "vary: {reward: [tests, 'tests=0.9,style=0.1']}\n")
    assert [len(one.spec.reward.components) for one in plan.variants] == [0, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "vary: {hyperparameters.learning_rat: [1]}",
            "3: vary.hyperparameters.learning_rat is not a field; did you mean",
        ),
        ("vary: {hyperparameters.learning_rate: [fast]}", "3: vary.hyperparameters.learning_rate must be a number"),
        ("vary: {algorithm: grpo}", "3: vary.algorithm must be a list of values, or labels"),
        ("vary: {algorithm: [grpo, grpo]}", "3: vary.algorithm has a value twice"),
        ("vary: {method: {a: {seed: 1}}}", "3: vary.method.a.seed is not a field"),
        ("vary: {problems.limit: [5]}", "1: train.problems must be fields with values, for problems.limit to vary"),
        ("vary: {seed: [1]}", "3: vary.seed is said by seeds"),
        ("seeds: 0", "3: seeds must be 1 or more"),
        ("seeds: [1, 1]", "3: seeds must be a number of seeds, or a list of different ones"),
        ("seeds: 600\nvary: {algorithm: [grpo, rloo]}", "4: vary makes 1200 runs; 1000 are allowed"),
        ("budget: 3", "3: budget is not a field; there are train, seeds"),
        (SEARCH + "vary: {algorithm: [grpo]}", "4: vary and search: a study has one of them"),
        ("search: {trials: 3}", "3: search.ranges is missing"),
        ("search: {ranges: {steps: {uniform: [1, 5]}}}", "3: search.trials is missing"),
        (
            "search: {trials: 3, ranges: {step: {uniform: [1, 5]}}}",
            "3: search.ranges.step is not a field; did you mean",
        ),
        ("search: {trials: 3, ranges: {steps: {uniform: [5, 1]}}}", "uniform must be [low, high] with low below high"),
        ("search: {trials: 3, ranges: {steps: {loguniform: [0, 1]}}}", "with low below high, both above 0"),
        ("search: {trials: 3, ranges: {steps: {normal: [0, 1]}}}", "must be {loguniform: [low, high]}, {uniform"),
        (
            "search: {trials: 3, ranges: {algorithm: {choice: [grpo, gpro]}}}",
            "ranges.algorithm must be one of sft, grpo",
        ),
        ("search: {trials: 3, asha: {}, ranges: {steps: {uniform: [1, 5]}}}", "search.asha needs train.validate_every"),
        ("search: {trials: 3, budget: {hours: 0}, ranges: {steps: {uniform: [1, 5]}}}", "must be a number above 0"),
    ],
)
def test_each_fault_is_said_by_its_line(file: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        plan_of(file, text + "\n")
    assert said in str(raised.value)


def test_what_must_be_there(file: Path) -> None:
    for text, said in (("train: {steps: 1}\n", "evaluate is missing"), ("evaluate: {}\n", "train is missing")):
        file.write_text(text)
        with pytest.raises(UsageError, match=said):
            Plan(YamlFile(file))


def test_seeds_of_a_search_are_others_than_that_of_its_trials(file: Path) -> None:
    assert plan_of(file, SEARCH).seeds == [0]
    assert plan_of(file, SEARCH + "seeds: 2\n").seeds == [1, 2]
    assert plan_of(file, SEARCH + "seeds: [0, 9]\n").seeds == [0, 9]


def test_a_range_of_whole_numbers_stays_whole(file: Path) -> None:
    plan = plan_of(file, "search: {trials: 3, ranges: {hyperparameters.batch_size: {uniform: [3.5, 9]}}}\n")
    assert plan.search
    found = plan.search.ranges["hyperparameters.batch_size"]
    assert (found.whole, found.low, found.high) == (True, 4, 9)


@pytest.mark.parametrize(
    ("name", "variants", "seeds"),
    [
        ("study", 2, 3),
        ("algorithms", 6, 5),
        ("asynchronous", 3, 3),
        ("search", 0, 3),
        ("curriculum", 3, 3),
        ("adaptation", 2, 2),
        ("edits-study", 2, 2),
        ("lora", 2, 3),
    ],
)
def test_the_examples_are_studies(
    name: str, variants: int, seeds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ratchet/models/scratch").mkdir(parents=True)  # a base of adaptation.yaml
    monkeypatch.setenv("HOME", str(tmp_path))
    plan = Plan(YamlFile(EXAMPLES / f"{name}.yaml"))
    assert (len(plan.variants), len(plan.seeds), plan.search is not None) == (variants, seeds, name == "search")
