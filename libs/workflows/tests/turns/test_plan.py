"""The file of `ratchet improve`: what it may say, and what is wrong with it, by line and field."""

from pathlib import Path

import pytest

from ratchet.gateway.v1 import release_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit.names import VersionRef
from ratchet_workflows.errors import UsageError
from ratchet_workflows.notation.unseen import check_unseen
from ratchet_workflows.notation.yaml_files import YamlFile
from ratchet_workflows.turns.plan import Plan, read

EXAMPLE = Path(__file__).parents[4] / "examples" / "improve.yaml"
PLAN = """\
model: starter
train: {algorithm: grpo, problems: composed/train, steps: 4}
evaluate: {suite: [composed/test=0.7, mbpp], samples_per_problem: 2}
gate: {min_difference: 0.01, rules: {guards: [{problems: mbpp, max_loss: 0.02}]}}
release: {stages: [{percent: 100, min_duration: 5m}], watch: 0s}
"""


def planned(folder: Path, text: str) -> Plan:
    file = folder / "improve.yaml"
    file.write_text(text)
    return read(YamlFile(file))


def test_each_section_is_its_message(tmp_path: Path) -> None:
    plan = planned(tmp_path, PLAN)
    run = plan.run_of(VersionRef("starter", 3), 2)
    assert (run.base.version.number, run.output_model, run.steps, run.seed) == (3, "starter", 4, 2)
    evaluation = plan.evaluation_of(VersionRef("starter", 4))
    assert (evaluation.model.version.number, [one.problems.name for one in evaluation.suite]) == (
        4, ["composed/test", "mbpp"],
    )  # fmt: skip
    assert evaluation.suite[0].weight == 0.7
    release = plan.release_of(VersionRef("starter", 4), "gate_1")
    assert (release.candidate.number, release.gate_id, release.HasField("watch")) == (4, "gate_1", True)
    assert plan.rules is not None
    assert plan.rules.guards[0].max_loss == 0.02
    assert plan.release.gate_id == "", "a plan stays as it is"


def test_one_system_is_trained_and_measured_with(tmp_path: Path) -> None:
    plan = planned(tmp_path, f"system: Be brief.\n{PLAN}")
    assert (plan.train.system, plan.evaluate.system) == ("Be brief.", "Be brief.")
    own = planned(tmp_path, f"system: Be brief.\n{PLAN}".replace("steps: 4", "steps: 4, system: Be kind."))
    assert (own.train.system, own.evaluate.system) == ("Be kind.", "Be brief.")
    with pytest.raises(UsageError, match="system must be a text, not 3"):
        planned(tmp_path, f"system: 3\n{PLAN}")


def test_one_chat_template_is_trained_and_measured_with(tmp_path: Path) -> None:
    (tmp_path / "mine.jinja").write_text("{{ messages }}")
    plan = planned(tmp_path, f"chat_template: mine.jinja\n{PLAN}")
    assert (plan.train.chat_template, plan.evaluate.chat_template) == ("{{ messages }}", "{{ messages }}")
    with pytest.raises(UsageError, match=r"chat_template cannot be read: .*theirs.jinja"):
        planned(tmp_path, f"chat_template: theirs.jinja\n{PLAN}")
    (tmp_path / "empty.jinja").write_text("\n")
    with pytest.raises(UsageError, match=r"chat_template is an empty file: empty.jinja"):
        planned(tmp_path, f"chat_template: empty.jinja\n{PLAN}")


def test_a_reward_of_the_registry_may_judge(tmp_path: Path) -> None:
    for said, score in (("facts@2=0.5", 0.5), ("facts@2", 1.0), ("{reward: facts@2, passing_score: 0.5}", 0.5)):
        judge = planned(tmp_path, PLAN.replace("samples_per", f"judge: {said}, samples_per")).evaluate.judge
        assert judge.reward == "facts@2"
        assert (judge.passing_score if judge.HasField("passing_score") else 1.0) == score


def test_what_it_trains_from_may_be_named(tmp_path: Path) -> None:
    plan = planned(tmp_path, PLAN.replace("steps: 4", "steps: 4, base: starter@1, seed: 7"))
    run = plan.run_of(VersionRef("starter", 3), 2)
    assert (run.base.version.number, run.seed) == (1, 7)


@pytest.mark.parametrize(
    ("measured", "said"),
    [("composed/train", "which is trained on"), ("composed/validation", "by which the best checkpoint is chosen")],
)
@pytest.mark.parametrize(
    "chooses",
    [
        "validation_problems: composed/validation",
        "validate: {suite: [composed/validation=0.7, basics=0.3], samples: 4}",
    ],
)
def test_what_training_sees_is_no_measure(measured: str, said: str, chooses: str, tmp_path: Path) -> None:
    train = f"steps: 4, {chooses}"
    text = PLAN.replace("composed/test", measured).replace("steps: 4", train)
    plan = planned(tmp_path, text)
    with pytest.raises(UsageError, match=rf"improve.yaml:\d+: evaluate.suite\[0\].problems is {measured}, {said}"):
        check_unseen(YamlFile(tmp_path / "improve.yaml"), plan.train, plan.evaluate)


def test_gate_and_release_may_be_left_out(tmp_path: Path) -> None:
    plan = planned(tmp_path, "".join(PLAN.splitlines(keepends=True)[:3]))
    assert (plan.rules, plan.release) == (None, release_pb2.ReleaseSpec())


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("gate:", "gates:", ":4: gates is not a field; did you mean gate?"),
        ("steps: 4", "stepz: 4", ":2: train.stepz is not a field; did you mean steps?"),
        ("steps: 4", "output_model: x", ":2: train.output_model is not a field"),
        ("samples_per_problem", "model: a, samples_per_problem", ":3: evaluate.model is not a field"),
        (
            "samples_per",
            "judge: facts=much, samples_per",
            ":3: evaluate.judge must be a reward, or a reward and a score",
        ),
        ("max_loss", "max_lost", ":4: gate.rules.guards[0].max_lost is not a field; did you mean max_loss?"),
        ("percent: 100", "percent: all", ":5: release.stages[0].percent must be a whole number, not 'all'"),
        ("min_difference: 0.01", "candidate: {}", ":4: gate.candidate is not a field"),
        (
            "problems: mbpp,",
            "problems: humaneval,",
            "'humaneval', which evaluate does not measure: it has composed/test",
        ),
        ("model: starter", "model: Not A Name", ":1: model must name a model"),
        ("model: starter", "model: 3", ":1: model must name a model"),
        ("model: starter\n", "", "model is missing: name the model"),
        ("evaluate:", "# evaluate:", "evaluate is missing: name the problems that measure it"),
        ("train: {algorithm: grpo, problems: composed/train, steps: 4}", "train: much", ":2: train must be fields"),
        ("train: {algorithm: grpo, problems: composed/train, steps: 4}", "train:", ":2: train must be fields"),
    ],
)
def test_what_is_wrong_is_said_by_line_and_field(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in PLAN
    with pytest.raises(UsageError) as raised:
        planned(tmp_path, PLAN.replace(before, after, 1))
    assert said in str(raised.value)


def test_the_example_is_a_plan_of_fifteen_lines_at_most() -> None:
    plan = read(YamlFile(EXAMPLE))
    assert plan.train.algorithm == trainer_pb2.ALGORITHM_GRPO
    assert plan.release.stages[0].percent == 100
    assert len(EXAMPLE.read_text().splitlines()) <= 15


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        planned(tmp_path, PLAN.replace("steps: 4", "stepz: 4, seeed: 1").replace("watch: 0s", "wacth: 0s") + "x: 1\n")
    said = str(refused.value).splitlines()
    assert len(said) == 4
    assert [fault for fault in ("stepz", "seeed", "wacth", "x is not") if any(fault in line for line in said)] == [
        "stepz", "seeed", "wacth", "x is not",
    ]  # fmt: skip
