"""Proto to domain and back. Pure; values that are not known are kept, for validation to name.

Enums go by name: ALGORITHM_GRPO is "grpo", and the other way round.
"""

from dataclasses import asdict, replace
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor

from ratchet.common.v1 import priority_pb2, problem_pb2, verdict_pb2
from ratchet.trainer.v1 import job_report_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_environments import convert as environments
from ratchet_episodes import record
from ratchet_kit import refs
from ratchet_kit.errors import Failure
from ratchet_kit.faults import Faults
from ratchet_kit.grpc_errors import failure_from_proto, failure_to_proto
from ratchet_kit.names import check_model_name
from ratchet_kit.pages import Page
from ratchet_kit.statistics import estimate_from_proto, estimate_to_proto
from ratchet_kit.times import since_from_proto, timestamp_from_proto, timestamp_to_proto
from ratchet_kit.usage import Usage, usage_from_proto, usage_to_proto
from ratchet_problems import examples
from ratchet_rewards import convert as rewards
from trainer_service.domain.cluster.capacity import Demand
from trainer_service.domain.cluster.scheduler import Overview
from trainer_service.domain.create.runs import Progress
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.ports import RunFile, RunFilter
from trainer_service.domain.run.run import Drawn, Forecast, Phase, Run, State, Step
from trainer_service.domain.run.sample import Sample, Wanted
from trainer_service.domain.spec.curriculum import Curriculum, Stage
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.plugins import Plugin
from trainer_service.domain.spec.spec import (
    Keep,
    ParentCheckpoint,
    ProblemSetRef,
    Resources,
    RunSpec,
    Validation,
    ValidationSet,
)
from trainer_service.domain.spec.thresholds import Thresholds

_VERDICTS = {name.removeprefix("VERDICT_"): number for name, number in verdict_pb2.Verdict.items()}


def spec_from_proto(message: pb.RunSpec, faults: Faults) -> RunSpec:
    """An invalid base is reported in `faults` and left unset."""
    resources = message.resources
    return RunSpec(
        base=faults.read("base", refs.model_from_proto, message.base)
        if message.HasField("base") or not message.HasField("parent")
        else None,
        algorithm=_enum_from_proto(pb.Algorithm.DESCRIPTOR, message.algorithm),
        problems=_problem_set_from_proto(message.problems),
        steps=message.steps,
        display_name=message.display_name,
        validation_problems=_problem_set_from_proto(message.validation_problems)
        if message.HasField("validation_problems")
        else None,
        reward=rewards.from_proto(message.reward, faults.under("reward")),
        resources=Resources(
            nodes=resources.nodes if resources.HasField("nodes") else None,
            accelerators_per_node=resources.accelerators_per_node
            if resources.HasField("accelerators_per_node")
            else None,
            device=_enum_from_proto(pb.Device.DESCRIPTOR, resources.device),
            engines=resources.engines if resources.HasField("engines") else None,
            min_nodes=resources.min_nodes if resources.HasField("min_nodes") else None,
            shares_gpu=resources.shares_gpu,
        ),
        seed=message.seed,
        hyperparameters=_hyperparameters_from_proto(message.hyperparameters),
        validate_every=message.validate_every if message.HasField("validate_every") else None,
        checkpoint_every=message.checkpoint_every if message.HasField("checkpoint_every") else None,
        loggers=tuple(message.loggers),
        output_model=message.output_model,
        priority=_enum_from_proto(priority_pb2.Priority.DESCRIPTOR, message.priority),
        verl_overrides=tuple(message.verl_overrides),
        forgeable_rewards=message.forgeable_rewards,
        refuse_long_prompts=message.refuse_long_prompts,
        plugins=tuple(
            Plugin(_enum_from_proto(pb.PluginKind.DESCRIPTOR, one.kind), one.name) for one in message.plugins
        ),
        pairs=_problem_set_from_proto(message.pairs) if message.HasField("pairs") else None,
        validation_pairs=_problem_set_from_proto(message.validation_pairs)
        if message.HasField("validation_pairs")
        else None,
        prompt_form=_enum_from_proto(pb.PromptForm.DESCRIPTOR, message.prompt_form),
        profile_steps=tuple(message.profile_steps),
        tracker_project=message.tracker_project,
        max_tokens=message.max_tokens if message.HasField("max_tokens") else None,
        budget=message.budget if message.HasField("budget") else None,
        curriculum=_curriculum_from_proto(message.curriculum) if message.HasField("curriculum") else None,
        thresholds=Thresholds(**{field.name: value for field, value in message.thresholds.ListFields()}),
        environment=environments.spec_from_proto(message.environment) if message.HasField("environment") else None,
        system=message.system,
        all_answers=message.all_answers,
        examples=_examples_from_proto(message.examples) if message.HasField("examples") else None,
        chat_template=message.chat_template,
        kept_groups=message.kept_groups if message.HasField("kept_groups") else None,
        follow_problems=message.follow_problems,
        validate=_validation_from_proto(message.validate) if message.HasField("validate") else None,
        keep=Keep(**{field.name: value for field, value in message.keep.ListFields()})
        if message.HasField("keep")
        else None,
        parent=ParentCheckpoint(message.parent.run_id, message.parent.step) if message.HasField("parent") else None,
    )


def spec_to_proto(spec: RunSpec) -> pb.RunSpec:
    """Of a complete spec."""
    taken = {name: value for name, value in asdict(spec.hyperparameters).items() if value is not None}
    if schedule := taken.pop("learning_rate_schedule", None):
        taken["learning_rate_schedule"] = pb.LearningRateSchedule.Value(f"LEARNING_RATE_SCHEDULE_{schedule.upper()}")
    resources = spec.resources
    return pb.RunSpec(
        display_name=spec.display_name,
        base=refs.model_to_proto(spec.base) if spec.base else None,
        algorithm=pb.Algorithm.Value(f"ALGORITHM_{spec.algorithm.upper()}"),
        problems=_problem_set_to_proto(spec.problems) if spec.problems.name else None,
        pairs=_problem_set_to_proto(spec.pairs) if spec.pairs else None,
        validation_pairs=_problem_set_to_proto(spec.validation_pairs) if spec.validation_pairs else None,
        validation_problems=_problem_set_to_proto(spec.validation_problems) if spec.validation_problems else None,
        reward=rewards.to_proto(spec.reward),
        steps=spec.steps,
        resources=pb.Resources(
            nodes=resources.nodes,
            accelerators_per_node=resources.accelerators_per_node,
            device=pb.Device.Value(f"DEVICE_{resources.device.upper()}"),
            engines=resources.engines,
            min_nodes=resources.min_nodes,
            shares_gpu=resources.shares_gpu,
        ),
        seed=spec.seed,
        hyperparameters=pb.Hyperparameters(**taken),
        validate_every=spec.validate_every,
        checkpoint_every=spec.checkpoint_every,
        loggers=spec.loggers,
        output_model=spec.output_model,
        priority=priority_pb2.Priority.Value(f"PRIORITY_{spec.priority.upper()}"),
        verl_overrides=spec.verl_overrides,
        forgeable_rewards=spec.forgeable_rewards,
        refuse_long_prompts=spec.refuse_long_prompts,
        plugins=[
            pb.Plugin(
                kind=pb.PluginKind.Value(f"PLUGIN_KIND_{one.kind.upper()}"),
                name=one.name,
                package=one.package,
                version=one.version,
                digest=one.digest,
            )
            for one in spec.plugins
        ],
        prompt_form=pb.PromptForm.Value(f"PROMPT_FORM_{(spec.prompt_form or 'unspecified').upper()}"),
        thresholds=pb.Thresholds(**asdict(spec.thresholds)),
        environment=environments.spec_to_proto(spec.environment) if spec.environment else None,
        environment_digest=spec.environment.digest if spec.environment else "",
        max_tokens=spec.max_tokens,
        budget=spec.budget,
        profile_steps=spec.profile_steps,
        tracker_project=spec.tracker_project,
        curriculum=_curriculum_to_proto(spec.curriculum) if spec.curriculum else None,
        system=spec.system,
        all_answers=spec.all_answers,
        examples=_problem_set_to_proto(spec.examples) if spec.examples else None,
        chat_template=spec.chat_template,
        kept_groups=spec.kept_groups,
        follow_problems=spec.follow_problems,
        validate=_validation_to_proto(spec.validate) if spec.validate else None,
        keep=pb.Keep(last=spec.keep.last, best=spec.keep.best) if spec.keep else None,
        parent=pb.ParentCheckpoint(run_id=spec.parent.run_id, step=spec.parent.step) if spec.parent else None,
    )


def _examples_from_proto(message: problem_pb2.ProblemSetRef) -> ProblemSetRef:
    shown = _problem_set_from_proto(message)
    return replace(shown, limit=examples.DEFAULT if shown.limit is None else shown.limit)


def _validation_from_proto(message: pb.Validation) -> Validation:
    suite = (
        ValidationSet(_problem_set_from_proto(one.problems), one.weight if one.HasField("weight") else 1.0)
        for one in message.suite
    )
    return Validation(tuple(suite), message.samples if message.HasField("samples") else 1)


def _validation_to_proto(value: Validation) -> pb.Validation:
    suite = [pb.ValidationSet(problems=_problem_set_to_proto(one.problems), weight=one.weight) for one in value.suite]
    return pb.Validation(suite=suite, samples=value.samples)


def _curriculum_from_proto(message: pb.Curriculum) -> Curriculum:
    return Curriculum(
        message.exploration if message.HasField("exploration") else None,
        tuple(
            Stage(**{field.name: value for field, value in one.ListFields()} | {"tags": tuple(one.tags)})
            for one in message.stages
        ),
    )


def _curriculum_to_proto(value: Curriculum) -> pb.Curriculum:
    return pb.Curriculum(
        exploration=value.exploration,
        stages=[pb.CurriculumStage(**asdict(stage)) for stage in value.stages],
    )


def _hyperparameters_from_proto(message: pb.Hyperparameters) -> Hyperparameters:
    given: dict[str, Any] = {field.name: value for field, value in message.ListFields()}
    if schedule := given.pop("learning_rate_schedule", 0):
        given["learning_rate_schedule"] = _enum_from_proto(pb.LearningRateSchedule.DESCRIPTOR, schedule)
    return Hyperparameters(**given)


def filter_from_proto(message: pb.ListRunsRequest) -> RunFilter:
    """Raises InvalidArgument for a state that is not known here, what is no model's name, and an invalid time."""
    name = _enum_from_proto(pb.Run.State.DESCRIPTOR, message.state)
    faults = Faults()
    if name:
        faults.one_of("state", f"STATE_{name.upper()}", [f"STATE_{state.upper()}" for state in State])
    if message.model:
        faults.read("model", check_model_name, message.model)
    faults.raise_if_any("there are no such runs")
    since = since_from_proto(message)
    return RunFilter(State(name) if name else None, message.model, message.name, since)


def phase_from_proto(value: pb.Run.Phase.ValueType) -> Phase | None:
    """None for a phase that is not set, or that we do not know."""
    name = _enum_from_proto(pb.Run.Phase.DESCRIPTOR, value)
    return Phase(name) if name in list(Phase) else None


def run_to_proto(run: Run) -> pb.Run:
    return pb.Run(
        id=run.id,
        spec=spec_to_proto(run.spec),
        state=pb.Run.State.Value(f"STATE_{run.state.name}"),
        failure=failure_to_proto(run.failure),
        step=run.step,
        attempt=run.attempt,
        platform_faults=run.platform_faults,
        version=refs.version_to_proto(run.version) if run.version else None,
        best_checkpoint=checkpoint_to_proto(run.best_checkpoint) if run.best_checkpoint else None,
        create_time=timestamp_to_proto(run.create_time),
        start_time=timestamp_to_proto(run.start_time) if run.start_time else None,
        end_time=timestamp_to_proto(run.end_time) if run.end_time else None,
        phase=pb.Run.Phase.Value(f"PHASE_{run.phase.name}") if run.phase else pb.Run.PHASE_UNSPECIFIED,
        phase_time=timestamp_to_proto(run.phase_time) if run.phase_time else None,
        actor=run.actor,
        cancel_actor=run.cancel_actor,
        resumes=run.resumes,
        resume_actor=run.resume_actor,
        tokens=run.tokens,
        waits_for=run.waits_for,
        preempted_by=run.preempted_by,
        preemptions=run.preemptions,
        nodes=run.nodes or None,
        forecast=_forecast_to_proto(run.forecast) if run.forecast else None,
        out_of_memory=run.out_of_memory,
        notices=[
            pb.Notice(
                step=notice.step,
                message=notice.message,
                create_time=timestamp_to_proto(notice.create_time),
                guard=notice.guard,
            )
            for notice in run.notices
        ],
        drawn=map(drawn_to_proto, run.drawn),
        usage=usage_to_proto(run.usage),
    )


def drawn_to_proto(value: Drawn) -> pb.DrawnProblems:
    return pb.DrawnProblems(problems=_problem_set_to_proto(value.problems), step=value.step)


def _forecast_to_proto(forecast: Forecast) -> pb.Forecast:
    message = pb.Forecast(
        peak_bytes=forecast.peak_bytes,
        limit_bytes=forecast.limit_bytes,
        cost=forecast.cost,
        currency=forecast.currency,
    )
    if forecast.step_time is not None:
        message.step_time.FromTimedelta(forecast.step_time)
    return message


def usage_of(
    report: job_report_pb2.ReportHeartbeatRequest
    | job_report_pb2.ReportStepRequest
    | job_report_pb2.ReportFinishedRequest,
) -> Usage | None:
    return usage_from_proto(report.usage) if report.HasField("usage") else None


def step_from_proto(request: job_report_pb2.ReportStepRequest) -> Step:
    """The attempt is the request's; the one inside the step is for readers."""
    return Step(
        number=request.step.number,
        metrics=dict(request.step.metrics),
        policy_id=request.step.policy_id,
        create_time=timestamp_from_proto(request.step.create_time),
        attempt=request.attempt,
        platform_faults=request.platform_faults,
    )


def step_to_proto(step: Step) -> pb.Step:
    return pb.Step(
        number=step.number,
        metrics=step.metrics,
        policy_id=step.policy_id,
        create_time=timestamp_to_proto(step.create_time),
        attempt=step.attempt,
    )


def checkpoint_from_proto(message: pb.Checkpoint) -> Checkpoint:
    return Checkpoint(
        step=message.step,
        uri=message.uri,
        policy_id=message.policy_id,
        create_time=timestamp_from_proto(message.create_time),
        validation_score=message.validation_score if message.HasField("validation_score") else None,
        validation=estimate_from_proto(message.validation) if message.HasField("validation") else None,
    )


def checkpoint_to_proto(checkpoint: Checkpoint) -> pb.Checkpoint:
    return pb.Checkpoint(
        step=checkpoint.step,
        uri=checkpoint.uri,
        policy_id=checkpoint.policy_id,
        create_time=timestamp_to_proto(checkpoint.create_time),
        validation_score=checkpoint.validation_score,
        validation=estimate_to_proto(checkpoint.validation) if checkpoint.validation else None,
        evaluation_id=checkpoint.evaluation_id,
        unscored=checkpoint.unscored,
    )


def failure_of(request: job_report_pb2.ReportFinishedRequest) -> Failure | None:
    return failure_from_proto(request.failure) if request.HasField("failure") else None


def progress_to_proto(progress: Progress) -> pb.WatchRunResponse:
    steps = [step_to_proto(step) for step in progress.steps]
    return pb.WatchRunResponse(run=run_to_proto(progress.run), steps=steps)


def runs_to_proto(page: Page[Run]) -> pb.ListRunsResponse:
    return pb.ListRunsResponse(runs=page.map(run_to_proto).items, next_page_token=page.next_page_token)


def steps_to_proto(page: Page[Step]) -> pb.ListStepsResponse:
    return pb.ListStepsResponse(steps=page.map(step_to_proto).items, next_page_token=page.next_page_token)


def wanted_from_proto(request: pb.ListTrainingSamplesRequest) -> Wanted:
    return Wanted(
        request.step if request.HasField("step") else None,
        request.problem_id,
        _enum_from_proto(verdict_pb2.Verdict.DESCRIPTOR, request.verdict).upper(),
        request.below if request.HasField("below") else None,
    )


def samples_to_proto(page: Page[Sample]) -> pb.ListTrainingSamplesResponse:
    return pb.ListTrainingSamplesResponse(samples=page.map(sample_to_proto).items, next_page_token=page.next_page_token)


def sample_to_proto(sample: Sample) -> pb.TrainingSample:
    return pb.TrainingSample(
        id=str(sample.id),
        step=sample.step,
        problem_id=sample.problem_id,
        index=sample.index,
        prompt=sample.prompt,
        completion=sample.completion,
        verdict=_VERDICTS.get(sample.verdict, verdict_pb2.VERDICT_UNSPECIFIED),
        tests_passed=sample.tests_passed,
        tests_total=sample.tests_total,
        detail=sample.detail,
        failed_tests=[pb.FailedTest(**asdict(one)) for one in sample.failed_tests],
        held_out_failed=sample.held_out_failed,
        stderr=sample.stderr,
        reward=sample.reward,
        components=sample.components,
        advantage=sample.advantage,
        policy_id=sample.policy_id,
        tokens=sample.tokens,
        truncated=sample.truncated,
        turns=sample.turns,
        staleness=sample.staleness,
        spans=[pb.WeightSpan(policy_id=one.policy_id, step=one.step, tokens=one.tokens) for one in sample.spans],
        attempt=sample.attempt,
        recorded=sample.recorded,
    )


def with_record(sample: Sample, *, tokens: bool) -> pb.GetTrainingSampleResponse:
    """Takes a while with many tokens."""
    found = pb.GetTrainingSampleResponse(sample=sample_to_proto(sample))
    if sample.record:
        json_format.ParseDict(record.shown(sample.record, tokens=tokens), found.record)
    return found


def cluster_to_proto(overview: Overview) -> pb.Cluster:
    machines = [
        pb.Cluster.Machine(
            id=node.id, address=node.address, cpus=node.cpus, accelerators=node.accelerators, run_ids=runs
        )
        for node, runs in overview.holders.items()
    ]
    waiting = []
    for run in overview.waiting:
        demand = Demand.of(run)
        ranks = {"nodes": demand.nodes, "accelerators_per_node": demand.accelerators_per_node}
        waiting.append(pb.Cluster.Waiting(run_id=run.id, waits_for=run.waits_for, **ranks))
    return pb.Cluster(machines=machines, waiting=waiting, place=overview.place)


def files_to_proto(page: Page[RunFile]) -> pb.ListRunFilesResponse:
    files = [pb.RunFile(name=one.name, size_bytes=one.size_bytes) for one in page.items]
    return pb.ListRunFilesResponse(files=files, next_page_token=page.next_page_token)


def checkpoints_to_proto(page: Page[Checkpoint]) -> pb.ListCheckpointsResponse:
    return pb.ListCheckpointsResponse(
        checkpoints=page.map(checkpoint_to_proto).items, next_page_token=page.next_page_token
    )


def _enum_from_proto(enum: EnumDescriptor, number: int) -> str:
    """The name in lower case, without its prefix; "" when it is not set, and the number when it is not known."""
    if number == 0:
        return ""
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    value = enum.values_by_number.get(number)
    return value.name.removeprefix(prefix).lower() if value else str(number)


def _problem_set_from_proto(message: problem_pb2.ProblemSetRef) -> ProblemSetRef:
    return ProblemSetRef(message.name, message.limit if message.HasField("limit") else None)


def _problem_set_to_proto(value: ProblemSetRef) -> problem_pb2.ProblemSetRef:
    return problem_pb2.ProblemSetRef(name=value.name, limit=value.limit, digest=value.digest)
