"""Proto to domain and back. Pure; values that are not known are kept, for validation to name.

Enums go by name: ALGORITHM_GRPO is "grpo", and the other way round.
"""

from dataclasses import asdict

from google.protobuf.descriptor import EnumDescriptor

from ratchet.common.v1 import common_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_kit.pages import Page
from ratchet_kit.times import timestamp_from_proto, timestamp_to_proto
from trainer_service.domain.run import Checkpoint, Run, State, Step
from trainer_service.domain.runs import Progress
from trainer_service.domain.spec import Hyperparameters, ModelRef, ProblemSetRef, Resources, RunSpec


def spec_from_proto(message: pb.RunSpec) -> RunSpec:
    return RunSpec(
        base=_model_ref_from_proto(message.base),
        algorithm=_enum_from_proto(pb.Algorithm.DESCRIPTOR, message.algorithm),
        problems=_problem_set_from_proto(message.problems),
        steps=message.steps,
        display_name=message.display_name,
        validation_problems=_problem_set_from_proto(message.validation_problems)
        if message.HasField("validation_problems")
        else None,
        reward=message.reward.name,
        resources=Resources(message.resources.nodes, message.resources.accelerators_per_node, message.resources.device),
        seed=message.seed,
        hyperparameters=Hyperparameters(**{field.name: value for field, value in message.hyperparameters.ListFields()}),
        validate_every=message.validate_every,
        checkpoint_every=message.checkpoint_every,
        loggers=tuple(message.loggers),
        output_model=message.output_model,
        priority=_enum_from_proto(pb.Priority.DESCRIPTOR, message.priority),
        verl_overrides=tuple(message.verl_overrides),
    )


def spec_to_proto(value: RunSpec) -> pb.RunSpec:
    """Of a complete spec."""
    taken = {name: number for name, number in asdict(value.hyperparameters).items() if number is not None}
    resources = value.resources
    message = pb.RunSpec(
        display_name=value.display_name,
        algorithm=pb.Algorithm.Value(f"ALGORITHM_{value.algorithm.upper()}"),
        problems=_problem_set_to_proto(value.problems),
        reward=pb.RewardSpec(name=value.reward),
        steps=value.steps,
        resources=pb.Resources(
            nodes=resources.nodes, accelerators_per_node=resources.accelerators_per_node, device=resources.device
        ),
        seed=value.seed,
        hyperparameters=pb.Hyperparameters(**taken),
        validate_every=value.validate_every,
        checkpoint_every=value.checkpoint_every,
        loggers=value.loggers,
        output_model=value.output_model,
        priority=pb.Priority.Value(f"PRIORITY_{value.priority.upper()}"),
        verl_overrides=value.verl_overrides,
    )
    if value.base:
        message.base.CopyFrom(common_pb2.ModelRef(**{value.base.kind: value.base.value}))
    if value.validation_problems:
        message.validation_problems.CopyFrom(_problem_set_to_proto(value.validation_problems))
    return message


def state_from_proto(value: pb.Run.State.ValueType) -> State | None:
    """None for a state that is not set, or that we do not know."""
    name = _enum_from_proto(pb.Run.State.DESCRIPTOR, value)
    return State(name) if name in list(State) else None


def run_to_proto(run: Run) -> pb.Run:
    message = pb.Run(
        id=run.id,
        spec=spec_to_proto(run.spec),
        state=pb.Run.State.Value(f"STATE_{run.state.name}"),
        error=run.error,
        step=run.step,
        attempt=run.attempt,
        platform_faults=run.platform_faults,
        version=run.version,
        create_time=timestamp_to_proto(run.create_time),
    )
    if run.best_checkpoint:
        message.best_checkpoint.CopyFrom(checkpoint_to_proto(run.best_checkpoint))
    if run.start_time:
        message.start_time.CopyFrom(timestamp_to_proto(run.start_time))
    if run.end_time:
        message.end_time.CopyFrom(timestamp_to_proto(run.end_time))
    return message


def step_from_proto(request: pb.ReportStepRequest) -> Step:
    """The attempt is the request's; the one inside the step is for readers."""
    return Step(
        number=request.step.number,
        metrics=dict(request.step.metrics),
        policy_id=request.step.policy_id,
        time=timestamp_from_proto(request.step.time),
        attempt=request.attempt,
        platform_faults=request.platform_faults,
    )


def step_to_proto(value: Step) -> pb.Step:
    return pb.Step(
        number=value.number,
        metrics=value.metrics,
        policy_id=value.policy_id,
        time=timestamp_to_proto(value.time),
        attempt=value.attempt,
    )


def checkpoint_from_proto(message: pb.Checkpoint) -> Checkpoint:
    return Checkpoint(
        step=message.step,
        uri=message.uri,
        policy_id=message.policy_id,
        time=timestamp_from_proto(message.time),
        validation_score=message.validation_score if message.HasField("validation_score") else None,
    )


def checkpoint_to_proto(value: Checkpoint) -> pb.Checkpoint:
    return pb.Checkpoint(
        step=value.step,
        uri=value.uri,
        policy_id=value.policy_id,
        time=timestamp_to_proto(value.time),
        validation_score=value.validation_score,
    )


def progress_to_proto(progress: Progress) -> pb.WatchRunResponse:
    steps = [step_to_proto(step) for step in progress.steps]
    return pb.WatchRunResponse(run=run_to_proto(progress.run), steps=steps)


def runs_to_proto(page: Page[Run]) -> pb.ListRunsResponse:
    return pb.ListRunsResponse(runs=map(run_to_proto, page.items), next_page_token=page.next_page_token)


def steps_to_proto(page: Page[Step]) -> pb.ListStepsResponse:
    return pb.ListStepsResponse(steps=map(step_to_proto, page.items), next_page_token=page.next_page_token)


def checkpoints_to_proto(page: Page[Checkpoint]) -> pb.ListCheckpointsResponse:
    return pb.ListCheckpointsResponse(
        checkpoints=map(checkpoint_to_proto, page.items), next_page_token=page.next_page_token
    )


def _enum_from_proto(enum: EnumDescriptor, number: int) -> str:
    """The name in lower case, without its prefix; "" when it is not set, and the number when it is not known."""
    if number == 0:
        return ""
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    value = enum.values_by_number.get(number)
    return value.name.removeprefix(prefix).lower() if value else str(number)


def _model_ref_from_proto(message: common_pb2.ModelRef) -> ModelRef | None:
    kind = message.WhichOneof("ref")
    return ModelRef(kind, getattr(message, kind)) if kind else None


def _problem_set_from_proto(message: common_pb2.ProblemSetRef) -> ProblemSetRef:
    return ProblemSetRef(message.name, message.limit)


def _problem_set_to_proto(value: ProblemSetRef) -> common_pb2.ProblemSetRef:
    return common_pb2.ProblemSetRef(name=value.name, limit=value.limit, digest=value.digest)
