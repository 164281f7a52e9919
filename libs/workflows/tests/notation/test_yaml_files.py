"""Runs as YAML: what people write, and what is wrong with it, by field."""

from pathlib import Path

import pytest

from ratchet.gateway.v1 import release_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_workflows.errors import UsageError
from ratchet_workflows.notation.yaml_files import YamlFile, reward_spec, run_spec

ALGORITHMS = [name.removeprefix("ALGORITHM_").lower() for name, number in pb.Algorithm.items() if number]
OF_SEVERAL = (
    "improve",
    "study",
    "search",
    "algorithms",
    "asynchronous",
    "curriculum",
    "adaptation",
    "edits-study",
    "lora",
)
"""Each of these has a test beside its own command."""
EXAMPLES = [
    file for file in sorted((Path(__file__).parents[4] / "examples").glob("*.yaml")) if file.stem not in OF_SEVERAL
]
RUN = """
base: starter@2
algorithm: grpo
problems: {name: composed/train, limit: 64}
validation_problems: composed/validation
steps: 3
hyperparameters: {learning_rate: 1e-4, group_size: 4}
thresholds: {kl_limit: 0}
loggers: [console, tensorboard]
resources: {device: cpu}
priority: high
reward:
  combination: gdpo
  components:
    - name: tests_fraction
      schedule: [{step: 1, weight: 1}, {step: 50, weight: 0}]
    - {name: length, weight: 0.1, parameters: {tokens: 60}, passing_only: true}
    - {name: loud, program: loud.py}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "loud.py").write_text("print([])\n")
    return tmp_path / "run.yaml"


def test_every_field_has_its_value(file: Path) -> None:
    file.write_text(RUN)
    spec = run_spec(file)
    assert (spec.base.version.model, spec.base.version.number) == ("starter", 2)
    assert (spec.algorithm, spec.priority, spec.resources.device) == (pb.ALGORITHM_GRPO, 3, pb.DEVICE_CPU)
    assert (spec.problems.limit, spec.validation_problems.name) == (64, "composed/validation")
    assert (spec.hyperparameters.learning_rate, spec.thresholds.HasField("kl_limit")) == (1e-4, True)
    assert list(spec.loggers) == ["console", "tensorboard"]
    first, second, third = spec.reward.components
    assert [(point.step, point.weight) for point in first.schedule] == [(1, 1), (50, 0)]
    assert (dict(second.parameters), second.passing_only) == ({"tokens": 60}, True)
    assert (third.program, spec.reward.combination) == ("print([])\n", pb.RewardSpec.COMBINATION_GDPO)


def test_a_chat_template_may_be_a_file(file: Path) -> None:
    (file.parent / "plain.jinja").write_text("{{ messages }}\n")
    file.write_text("chat_template: plain.jinja\n")
    assert run_spec(file).chat_template == "{{ messages }}\n"
    file.write_text('chat_template: "{{ messages[0].content }}"\n')
    assert run_spec(file).chat_template == "{{ messages[0].content }}"


def test_a_reward_may_be_said_in_short_or_have_a_file_of_its_own(file: Path) -> None:
    file.write_text("reward: tests=0.7,style=0.3\n")
    assert [one.name for one in run_spec(file).reward.components] == ["tests_passed", "style"]
    file.write_text("name: balanced\n")
    assert reward_spec(file) == pb.RewardSpec(name="balanced")


LAUGHS = "\n".join(["l0: &l0 x", *(f"l{one}: &l{one} [{', '.join([f'*l{one - 1}'] * 9)}]" for one in range(1, 40))])
"""A few lines that hold 9 ** 39 values."""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stepz: 3", "stepz is not a field; did you mean steps?"),
        ("reward: {components: [{nam: style}]}", "reward.components[0].nam is not a field; did you mean name?"),
        ("reward: {components: [{name: loud, digest: x}]}", "reward.components[0].digest is not a field"),
        ("reward: {components: [{name: loud, program: away.py}]}", "reward.components[0].program cannot be read"),
        ("chat_template: away.jinja", "chat_template cannot be read"),
        ("reward: style=much", "reward is not a reward: 'style=much' has no number"),
        ("steps: many", "steps must be a whole number, not 'many'"),
        ("steps: 1.5", "steps must be a whole number, not 1.5"),
        ("steps: true", "steps must be a whole number, not True"),
        ("steps: 99999999999", "steps cannot hold 99999999999"),
        ("seed:", "seed has no value"),
        ("algorithm: gpro", f"algorithm must be one of {', '.join(ALGORITHMS)}; not 'gpro'"),
        ("loggers: console", "loggers must be a list"),
        ("hyperparameters: 5", "hyperparameters must be fields with values"),
        ("hyperparameters: {temperature: warm}", "hyperparameters.temperature must be a number, not 'warm'"),
        ("reward: {components: [{name: length, parameters: {tokens: few}}]}", "parameters.tokens must be a number"),
        ("- steps", "the file must be fields with values"),
        ("steps: [", "is not valid YAML"),
        ("base: not a name!", "names no model"),
        (LAUGHS, "holds more than"),
        ("loggers: &a [*a]", "is"),
        ("? [a]\n: b", "is not valid YAML"),
        ("a: " + "[" * 5000, "is not valid YAML"),
        ("steps: !!python/object/apply:os.system [id]", "is not valid YAML"),
        ("steps: 1\nsteps: 2", ":2: steps occurs a second time"),
    ],
)
def test_what_is_wrong_is_said_by_its_field(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError) as raised:
        run_spec(file)
    assert said in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        run_spec(tmp_path / "run.yaml")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_are_runs(example: Path) -> None:
    spec = run_spec(example)
    assert spec.steps > 0
    assert spec.algorithm != pb.ALGORITHM_UNSPECIFIED


def test_what_is_wrong_is_said_by_its_line(file: Path) -> None:
    file.write_text(RUN.replace("name: length", "nam: length"))
    with pytest.raises(UsageError, match=r"run.yaml:17: reward.components\[1\].nam is not a field"):
        run_spec(file)
    source = YamlFile(file)
    assert source.place("hyperparameters.group_size") == f"{file}:7"
    assert source.place("problems.digest.x") == f"{file}:4", "the nearest that there is"
    assert source.place("nowhere[x].at") == str(file)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5m", 300), ("30s", 30), ("1.5h", 5400), ("7d", 604_800), ("0s", 0), ("20", 20)]
)
def test_durations(file: Path, text: str, seconds: float) -> None:
    file.write_text(f"stages: [{{percent: 100, min_duration: {text}}}]\nunproven: proceed\n")
    source = YamlFile(file)
    spec = source.fill(release_pb2.ReleaseSpec(), source.fields(), "")
    assert spec.stages[0].min_duration.ToTimedelta().total_seconds() == seconds
    assert spec.unproven == release_pb2.ReleaseSpec.UNPROVEN_PROCEED


@pytest.mark.parametrize("text", ["soon", "-5m", "5w", "true", "[5m]"])
def test_what_is_no_duration(file: Path, text: str) -> None:
    file.write_text(f"watch: {text}\n")
    source = YamlFile(file)
    with pytest.raises(UsageError, match=r"run.yaml:1: watch must be a time, as 30s, 5m, 1h, 7d"):
        source.fill(release_pb2.ReleaseSpec(), source.fields(), "")
