"""Protobuf to the domain and back. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import timedelta

from google.protobuf import json_format, struct_pb2

from eval_service.domain.comparison import Comparisons, Plan, Question
from eval_service.domain.evaluation import State
from eval_service.domain.evaluations import Report
from eval_service.domain.measurement import Measurement
from eval_service.domain.pair import Choice, Pair
from eval_service.domain.ports import EvaluationFilter, SampleFilter
from eval_service.domain.preferences import Pairing
from eval_service.domain.ranking import Rank
from eval_service.domain.sample import Judgement, Sample
from eval_service.domain.score import BenchmarkScore, EpisodeMeans, PassAtK, Slice
from eval_service.domain.sets import Imported, Shown
from eval_service.domain.spec import EvaluationSpec, Form, ProblemSetRef, Prompting, RewardJudge, SuiteEntry
from eval_service.domain.statistics import CONFIDENCE, POWER
from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet.eval.v1 import preference_pb2
from ratchet_environments import convert as environments
from ratchet_environments.failures import FailedTest
from ratchet_episodes import record
from ratchet_kit import refs
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.faults import Faults
from ratchet_kit.grpc_errors import failure_to_proto
from ratchet_kit.names import AnyModel, BareModel, VersionRef, check_model_name
from ratchet_kit.statistics import comparison_to_proto, estimate_to_proto
from ratchet_kit.times import duration_to_proto, since_from_proto, timestamp_to_proto
from ratchet_kit.usage import usage_to_proto
from ratchet_problems import examples

MAX_ADDED = 2_000
"""Samples that are added together."""
MAX_VOTER = 200
"""Characters."""
MAX_RANKED = 100
"""Evaluations that are ranked together."""

_STATES = {state: pb.Evaluation.State.Value(f"STATE_{state.name}") for state in State}
_FORMS = {pb.Prompting.FORM_CHAT: Form.CHAT, pb.Prompting.FORM_COMPLETION: Form.COMPLETION}
_FORMS_TO_PROTO = {form: value for value, form in _FORMS.items()}
_CHOICES = {preference_pb2.Choice.Value(f"CHOICE_{choice.name}"): choice for choice in Choice}
_CHOICES_TO_PROTO = {choice: value for value, choice in _CHOICES.items()}


# Specs


def spec_from_proto(message: pb.EvaluationSpec) -> EvaluationSpec:
    """Fills in what the proto says for fields that were not set. Raises InvalidArgument that names every fault."""
    faults = Faults()
    model: AnyModel | None = None
    if not (message.imported_samples and not message.HasField("model")):
        # Read even without a model, for its other faults; nobody sees it then.
        model = faults.read("spec.model", refs.model_from_proto, message.model) or BareModel("")
    if message.suite and message.problems.name:
        faults.add("spec.problems", "must be left out where there is a suite")
    spec = faults.read("spec", lambda spec, _: _spec(spec, model), message)
    faults.raise_if_any("the evaluation cannot be made")
    assert spec is not None
    return spec


def _spec(message: pb.EvaluationSpec, model: AnyModel | None) -> EvaluationSpec:
    return EvaluationSpec(
        model=model,
        suite=tuple(map(_entry, message.suite)) or (SuiteEntry(_problems(message.problems)),),
        samples_per_problem=message.samples_per_problem if message.HasField("samples_per_problem") else 1,
        k=tuple(message.k) or (1,),
        temperature=message.temperature if message.HasField("temperature") else 1.0,
        max_tokens=message.max_tokens if message.HasField("max_tokens") else 512,
        seed=message.seed,
        prompting=Prompting(
            _FORMS.get(message.prompting.form),
            message.prompting.shots if message.prompting.HasField("shots") else None,
        ),
        imported_samples=message.imported_samples,
        exclude_unsound=message.exclude_unsound,
        environment=environments.spec_from_proto(message.environment).completed()
        if message.HasField("environment")
        else None,
        system=message.system,
        chat_template=message.chat_template,
        display_name=message.display_name,
        engine_model=message.engine_model,
        budget=message.budget if message.HasField("budget") else None,
        judge=_judge(message.judge) if message.HasField("judge") else None,
        examples=_examples(message.examples) if message.HasField("examples") else None,
    )


def _judge(message: pb.RewardJudge) -> RewardJudge:
    return RewardJudge(message.reward, message.passing_score if message.HasField("passing_score") else 1.0)


def _entry(message: pb.SuiteEntry) -> SuiteEntry:
    return SuiteEntry(_problems(message.problems), message.weight if message.HasField("weight") else 1.0)


def _problems(message: problem_pb2.ProblemSetRef) -> ProblemSetRef:
    return ProblemSetRef(message.name, message.limit if message.HasField("limit") else None)


def _spec_to_proto(spec: EvaluationSpec) -> pb.EvaluationSpec:
    one = len(spec.suite) == 1
    prompting = spec.prompting
    return pb.EvaluationSpec(
        model=refs.model_to_proto(spec.model) if spec.model else None,
        problems=_problems_to_proto(spec.suite[0].problems) if one else None,
        samples_per_problem=spec.samples_per_problem,
        k=spec.k,
        temperature=spec.temperature,
        max_tokens=spec.max_tokens,
        seed=spec.seed,
        suite=()
        if one
        else (pb.SuiteEntry(problems=_problems_to_proto(one.problems), weight=one.weight) for one in spec.suite),
        prompting=pb.Prompting(
            form=_FORMS_TO_PROTO[prompting.form] if prompting.form else pb.Prompting.FORM_UNSPECIFIED,
            shots=prompting.shots,
        ),
        imported_samples=spec.imported_samples,
        exclude_unsound=spec.exclude_unsound,
        environment=environments.spec_to_proto(spec.environment) if spec.environment else None,
        system=spec.system,
        chat_template=spec.chat_template,
        display_name=spec.display_name,
        engine_model=spec.engine_model,
        budget=spec.budget,
        examples=_problems_to_proto(spec.examples) if spec.examples else None,
        judge=pb.RewardJudge(reward=spec.judge.reward, passing_score=spec.judge.passing_score) if spec.judge else None,
    )


def _examples(message: problem_pb2.ProblemSetRef) -> ProblemSetRef:
    shown = _problems(message)
    return replace(shown, limit=examples.DEFAULT if shown.limit is None else shown.limit)


def _problems_to_proto(problems: ProblemSetRef) -> problem_pb2.ProblemSetRef:
    return problem_pb2.ProblemSetRef(name=problems.name, digest=problems.digest, limit=problems.limit)


# Evaluations


def report_to_proto(report: Report) -> pb.Evaluation:
    evaluation, score = report.evaluation, report.score
    ends, measured = report.expected_end_time, evaluation.model
    return pb.Evaluation(
        id=evaluation.id,
        spec=_spec_to_proto(evaluation.spec),
        state=_STATES[evaluation.state],
        failure=failure_to_proto(evaluation.failure),
        policy_id=evaluation.policy_id,
        settings_id=evaluation.settings_id,
        problems_done=score.problems_done,
        problems_total=score.problems_total,
        pass_at_k=_passes(score.pass_at_k) if evaluation.state is State.SUCCEEDED else (),
        verdicts=score.verdicts,
        forgeable_passes=score.forgeable_passes,
        create_time=timestamp_to_proto(evaluation.create_time),
        start_time=timestamp_to_proto(evaluation.start_time) if evaluation.start_time else None,
        end_time=timestamp_to_proto(evaluation.end_time) if evaluation.end_time else None,
        benchmarks=(_benchmark(entry, one) for entry, one in zip(evaluation.spec.suite, score.benchmarks, strict=True)),
        expected_end_time=timestamp_to_proto(ends) if ends else None,
        samples_done=score.samples,
        samples_total=report.samples_total,
        references_done=evaluation.references.tried,
        references_total=evaluation.references.total,
        waits_for=report.waits_for,
        notices=evaluation.notices,
        version=refs.version_to_proto(VersionRef.parse(measured.version)) if measured and measured.version else None,
        usage=usage_to_proto(evaluation.usage),
        forecast=usage_to_proto(evaluation.forecast) if evaluation.forecast else None,
        actor=evaluation.actor,
        episodes=_means(score.episodes) if score.episodes else None,
    )


def _means(one: EpisodeMeans) -> pb.EpisodeMeans:
    time = duration_to_proto(timedelta(seconds=one.seconds))
    return pb.EpisodeMeans(turns=one.turns, tool_errors=one.tool_errors, tokens=one.tokens, time=time)


def _benchmark(entry: SuiteEntry, score: BenchmarkScore) -> pb.BenchmarkScore:
    return pb.BenchmarkScore(
        problems=_problems_to_proto(entry.problems),
        version=entry.version,
        weight=entry.weight,
        problems_done=score.problems_done,
        problems_total=score.problems_total,
        pass_at_k=_passes(score.pass_at_k),
        failures=score.failures,
        samples=score.samples,
        forgeable_passes=score.forgeable_passes,
        slices=map(_slice, score.slices),
        exclusions=(pb.Exclusion(problem_id=one.problem_id, reason=one.reason) for one in score.exclusions),
        shared_problem_ids=score.shared,
    )


def _slice(one: Slice) -> pb.Slice:
    return pb.Slice(name=one.name, problems=one.problems, pass_at_k=_passes(one.pass_at_k))


def _passes(items: Iterable[PassAtK]) -> list[pb.PassAtK]:
    return [pb.PassAtK(k=item.k, estimate=estimate_to_proto(item.estimate)) for item in items]


# Samples


def imported_from_proto(message: pb.AddSamplesRequest) -> list[Imported]:
    """Raises InvalidArgument for too many, and for one without a text."""
    faults = Faults()
    faults.unless(len(message.samples) <= MAX_ADDED, "samples", f"must be {MAX_ADDED} at most")
    for place, one in enumerate(message.samples):
        faults.unless(one.WhichOneof("text"), f"samples[{place}]", "must have a completion or a solution")
    faults.raise_if_any("the samples cannot be added")
    return [
        Imported(one.problem_id, one.index, one.solution or one.completion, one.HasField("solution"), one.benchmark)
        for one in message.samples
    ]


def filter_from_proto(message: pb.ListSamplesRequest) -> SampleFilter:
    """Raises InvalidArgument for a verdict, or a failure, that is not known here."""
    if message.verdict not in verdict_pb2.Verdict.values():
        raise InvalidArgument(f"verdict {message.verdict} is not known")
    if message.failure not in pb.FailureClass.values():
        raise InvalidArgument(f"failure {message.failure} is not known")
    verdict = verdict_pb2.Verdict.Name(message.verdict).removeprefix("VERDICT_") if message.verdict else ""
    failure = pb.FailureClass.Name(message.failure).removeprefix("FAILURE_CLASS_") if message.failure else ""
    return SampleFilter(message.benchmark, message.problem_id, verdict, failure)


def evaluation_filter_from_proto(message: pb.ListEvaluationsRequest) -> EvaluationFilter:
    """Raises InvalidArgument for a state that is not known here, what is no model's name, and an invalid time."""
    if message.model:
        check_model_name(message.model)
    states = {value: state for state, value in _STATES.items()}
    if message.state and message.state not in states:
        raise InvalidArgument(f"state {message.state} is not known")
    state = states.get(message.state)
    return EvaluationFilter(message.model, message.problems, state, since_from_proto(message), message.name)


def sample_to_proto(sample: Sample) -> pb.Sample:
    """Of one that was judged."""
    key, judgement = sample.key, sample.judgement or Judgement("UNSPECIFIED", 0, 0)
    failure = judgement.failure or "UNSPECIFIED"
    return pb.Sample(
        problem_id=key.problem_id,
        index=key.index,
        completion=sample.completion,
        verdict=verdict_pb2.Verdict.Value(f"VERDICT_{judgement.verdict}"),
        tests_passed=judgement.tests_passed,
        tests_total=judgement.tests_total,
        policy_id=sample.policy_id,
        detail=judgement.detail,
        forgeable=judgement.forgeable,
        benchmark=key.benchmark,
        failure=pb.FailureClass.Value(f"FAILURE_CLASS_{failure}"),
        is_program=sample.is_program,
        tokens=sample.tokens,
        truncated=sample.truncated,
        generation_time=duration_to_proto(sample.generation_time) if sample.generation_time else None,
        cpu_time=duration_to_proto(judgement.cpu_time) if judgement.cpu_time is not None else None,
        failed_tests=_tests(judgement.failed_tests),
        held_out_failed=judgement.held_out_failed,
        turns=sample.turns,
        tool_errors=sample.tool_errors,
        recorded=sample.recorded,
    )


def episode_to_proto(sample: Sample, *, tokens: bool) -> pb.GetEpisodeResponse:
    """Takes a while with many tokens."""
    shown = json_format.ParseDict(record.shown(sample.record, tokens=tokens), struct_pb2.Struct())
    return pb.GetEpisodeResponse(sample=sample_to_proto(sample), record=shown)


def shown_to_proto(shown: Shown) -> pb.GetMeasuredProblemResponse:
    return pb.GetMeasuredProblemResponse(prompt=shown.prompt, tests=_tests(shown.tests), held_out_tests=shown.held_out)


def _tests(tests: Iterable[FailedTest]) -> list[verdict_pb2.ShownTest]:
    return [verdict_pb2.ShownTest(**asdict(one)) for one in tests]


# Comparisons


def question_from_proto(message: pb.CompareEvaluationsRequest) -> Question:
    """Raises InvalidArgument."""
    confidence = message.confidence if message.HasField("confidence") else CONFIDENCE
    return Question(confidence, tuple(message.training_fingerprints), tuple(message.selection_fingerprints))


def plan_from_proto(message: pb.PlanComparisonRequest) -> Plan:
    """Raises InvalidArgument."""
    return Plan(
        samples_per_problem=message.samples_per_problem if message.HasField("samples_per_problem") else None,
        problems=message.problems if message.HasField("problems") else None,
        power=message.power if message.HasField("power") else POWER,
    )


def comparisons_to_proto(comparisons: Comparisons) -> pb.CompareEvaluationsResponse:
    return pb.CompareEvaluationsResponse(
        comparison=comparison_to_proto(comparisons.whole),
        benchmarks=[
            pb.BenchmarkComparison(
                name=one.name,
                comparison=comparison_to_proto(one.comparison),
                adjusted_p_value=one.adjusted_p_value,
                unsolved=one.unsolved,
                tampered_share=one.tampered_share,
                trained_on=one.trained_on,
                selected_on=one.selected_on,
                changed=(pb.ChangedProblem(**asdict(it)) for it in one.changed),
            )
            for one in comparisons.sets
        ],
    )


def measurement_to_proto(one: Measurement) -> pb.Measurement:
    return pb.Measurement(
        evaluation_id=one.evaluation_id,
        model=one.model,
        policy_id=one.policy_id,
        start_time=timestamp_to_proto(one.start_time),
        setup=one.setup,
        draw=one.draw,
        problems=one.problems,
        total=one.total,
    )


# Preferences


def pairing_from_proto(message: preference_pb2.CreatePairRequest) -> Pairing:
    """Raises InvalidArgument."""
    faults = Faults()
    ids = _ranked(faults, message.evaluation_ids)
    if faults.required("voter", message.voter):
        faults.bounds("voter", len(message.voter), at_most=MAX_VOTER)
    faults.raise_if_any("the pair cannot be made")
    return Pairing(ids, message.voter, message.passed_only)


def choice_from_proto(message: preference_pb2.VotePairRequest) -> Choice:
    """Raises InvalidArgument."""
    faults = Faults()
    faults.unless(message.choice in _CHOICES, "choice", "must be left, right or tie")
    faults.raise_if_any()
    return _CHOICES[message.choice]


def ranking_from_proto(message: preference_pb2.RankEvaluationsRequest) -> tuple[Sequence[str], float]:
    """Ids, and the confidence. Raises InvalidArgument."""
    faults = Faults()
    ids = _ranked(faults, message.evaluation_ids)
    confidence = message.confidence if message.HasField("confidence") else CONFIDENCE
    faults.bounds("confidence", confidence, above=0.0, below=1.0)
    faults.raise_if_any()
    return ids, confidence


def _ranked(faults: Faults, given: Iterable[str]) -> Sequence[str]:
    ids = list(dict.fromkeys(given))
    faults.bounds("evaluation_ids", len(ids), at_least=2, at_most=MAX_RANKED)
    return ids


def pair_to_proto(pair: Pair) -> preference_pb2.Pair:
    voted = pair.choice is not None
    return preference_pb2.Pair(
        id=pair.id,
        voter=pair.voter,
        benchmark=pair.benchmark,
        problem_id=pair.problem_id,
        prompt=pair.prompt,
        left=pair.left.text,
        right=pair.right.text,
        choice=_CHOICES_TO_PROTO[pair.choice] if pair.choice else preference_pb2.CHOICE_UNSPECIFIED,
        left_evaluation_id=pair.left.evaluation_id if voted else "",
        right_evaluation_id=pair.right.evaluation_id if voted else "",
        create_time=timestamp_to_proto(pair.create_time),
        vote_time=timestamp_to_proto(pair.vote_time) if pair.vote_time else None,
    )


def rank_to_proto(rank: Rank) -> preference_pb2.Rank:
    return preference_pb2.Rank(
        evaluation_id=rank.evaluation_id,
        strength=estimate_to_proto(rank.strength),
        votes=rank.votes,
        wins=rank.wins,
    )
