"""What is not set has the proto's defaults; what cannot be measured is refused by field."""

import pytest
from google.protobuf import json_format

from eval_service import convert
from eval_service.domain.comparison import Changed, Comparisons, Plan, Question, SetComparison
from eval_service.domain.ports import SampleFilter
from eval_service.domain.sample import Sample, SampleKey
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef, RewardJudge, SuiteEntry
from ratchet.common.v1 import environment_pb2, model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_environments import EnvironmentSpec
from ratchet_episodes import record
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.names import AliasRef
from ratchet_kit.statistics import Comparison, Estimate, comparison_from_proto


def test_what_is_not_set_has_the_defaults_of_the_proto() -> None:
    message = pb.EvaluationSpec(
        model=model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter", alias="champion")),
        problems=problem_pb2.ProblemSetRef(name="basics", digest="not the caller's to say"),
    )
    champion, basics = AliasRef("starter", "champion"), (SuiteEntry(ProblemSetRef("basics")),)
    assert convert.spec_from_proto(message) == EvaluationSpec(champion, basics, 1, (1,), 1.0, 512, 0)
    message.temperature = 0
    assert convert.spec_from_proto(message).temperature == 0


def test_a_judge_passes_from_1_on_unless_it_says_otherwise() -> None:
    basics, model = problem_pb2.ProblemSetRef(name="basics"), model_pb2.ModelRef(model="starter")
    message = pb.EvaluationSpec(model=model, problems=basics, judge=pb.RewardJudge(reward="facts"))
    assert convert.spec_from_proto(message).judge == RewardJudge("facts", 1.0)
    message.judge.passing_score = 0
    assert convert.spec_from_proto(message).judge == RewardJudge("facts", 0.0)


def test_an_environment_has_its_turns() -> None:
    message = pb.EvaluationSpec(
        model=model_pb2.ModelRef(model="starter"),
        problems=problem_pb2.ProblemSetRef(name="basics"),
        environment=environment_pb2.EnvironmentSpec(name="edits"),
    )
    assert convert.spec_from_proto(message).environment == EnvironmentSpec("edits", 3)


@pytest.mark.parametrize(
    ("model", "field"),
    [
        (model_pb2.ModelRef(), "spec.model"),
        (model_pb2.ModelRef(version=model_pb2.VersionRef(model="starter")), "spec.model.version.number"),
        (model_pb2.ModelRef(version=model_pb2.VersionRef(model="Starter", number=1)), "spec.model.version.model"),
        (model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter")), "spec.model.alias.alias"),
        (model_pb2.ModelRef(model="No Such"), "spec.model.model"),
    ],
)
def test_all_faults_are_named_at_once(model: model_pb2.ModelRef, field: str) -> None:
    message = pb.EvaluationSpec(model=model, max_tokens=0, samples_per_problem=0)
    with pytest.raises(InvalidArgument) as refused:
        convert.spec_from_proto(message)
    assert [violation.field for violation in refused.value.violations] == [
        field,
        "spec.problems.name",
        "spec.samples_per_problem",
        "spec.max_tokens",
        "spec.k[0]",
    ]


def test_what_a_comparison_is_to_say_has_the_defaults_of_the_proto() -> None:
    assert convert.question_from_proto(pb.CompareEvaluationsRequest()) == Question(0.95, ())
    asked = pb.CompareEvaluationsRequest(confidence=0.99, training_fingerprints=["a", "b"])
    assert convert.question_from_proto(asked) == Question(0.99, ("a", "b"))
    assert convert.plan_from_proto(pb.PlanComparisonRequest()) == Plan(None, None, 0.8)
    planned = pb.PlanComparisonRequest(samples_per_problem=8, problems=500, power=0.9)
    assert convert.plan_from_proto(planned) == Plan(8, 500, 0.9)
    with pytest.raises(InvalidArgument):
        convert.plan_from_proto(pb.PlanComparisonRequest(samples_per_problem=0))


def test_comparisons_cross_by_set() -> None:
    estimate = Estimate(0.5, 0.25, 0.75)
    whole = Comparison(estimate, estimate, Estimate(0.25, 0.125, 0.5), 0.01, 100, 30, 10, 90, 0.0625, 0.99)
    one = SetComparison("mbpp", whole, 0.02, ("mbpp/7",), 0.125, 3, 5, (Changed("mbpp/7", 1.0, 0.0),))
    message = convert.comparisons_to_proto(Comparisons(whole, (one,)))
    assert comparison_from_proto(message.comparison) == whole
    [found] = message.benchmarks
    assert comparison_from_proto(found.comparison) == whole
    assert (found.name, found.adjusted_p_value, found.unsolved) == ("mbpp", 0.02, ["mbpp/7"])
    assert list(found.changed) == [pb.ChangedProblem(problem_id="mbpp/7", baseline=1.0)]
    assert (found.tampered_share, found.trained_on, found.selected_on) == (0.125, 3, 5)


def test_a_filter_is_of_a_model_and_no_version() -> None:
    assert convert.evaluation_filter_from_proto(pb.ListEvaluationsRequest(model="starter")).model == "starter"
    with pytest.raises(InvalidArgument, match="model must name a model"):
        convert.evaluation_filter_from_proto(pb.ListEvaluationsRequest(model="starter@1"))


def test_samples_are_filtered_by_what_they_failed_by() -> None:
    wanted = pb.ListSamplesRequest(benchmark="basics", failure=pb.FAILURE_CLASS_TIMEOUT)
    assert convert.filter_from_proto(wanted) == SampleFilter("basics", failure="TIMEOUT")
    with pytest.raises(InvalidArgument, match="failure 99"):
        convert.filter_from_proto(pb.ListSamplesRequest(failure=99))  # type: ignore[arg-type]


def test_tokens_of_an_episode_are_given_on_demand() -> None:
    call = {"ids_kept": 0, "prompt_ids": [1], "token_ids": [2, 3], "log_probs": [-0.5, -0.25], "role": "m"}
    kept = {"session": {"calls": [call], "failed": []}, "left_out": []}
    one = Sample(SampleKey("basics", "p", 1), "", turns=3, tool_errors=2, recorded=True, record=record.pack(kept))
    whole = convert.episode_to_proto(one, tokens=True)
    assert json_format.MessageToDict(whole.record) == kept
    assert (whole.sample.index, whole.sample.turns, whole.sample.tool_errors, whole.sample.recorded) == (1, 3, 2, True)
    (said,) = json_format.MessageToDict(convert.episode_to_proto(one, tokens=False).record)["session"]["calls"]
    assert said == call | {"prompt_ids": [], "token_ids": [], "log_probs": []}
