"""Workflows and schedules."""

from google.protobuf import json_format, struct_pb2

from gateway_service.domain.workflows.schedule import Schedule, Trigger
from gateway_service.domain.workflows.workflow import Plan, State, Workflow
from gateway_service.domain.workflows.workflows import Watched
from ratchet.gateway.v1 import workflow_pb2 as pb
from ratchet_kit.errors import invalid
from ratchet_kit.times import timestamp_to_proto
from ratchet_workflows.kinds import Kind

_KINDS = {Kind.TURN: pb.WORKFLOW_KIND_TURN, Kind.STUDY: pb.WORKFLOW_KIND_STUDY}
_STATES = {
    State.QUEUED: pb.Workflow.STATE_QUEUED,
    State.RUNNING: pb.Workflow.STATE_RUNNING,
    State.SUCCEEDED: pb.Workflow.STATE_SUCCEEDED,
    State.REFUSED: pb.Workflow.STATE_REFUSED,
    State.FAILED: pb.Workflow.STATE_FAILED,
    State.CANCELLED: pb.Workflow.STATE_CANCELLED,
}


def workflow_plan_from_proto(plan: pb.WorkflowPlan) -> Plan:
    """Raises InvalidArgument for an unknown kind."""
    for kind, number in _KINDS.items():
        if number == plan.kind:
            return Plan(kind, plan.name, plan.text)
    raise invalid("plan.kind", "must be WORKFLOW_KIND_TURN or WORKFLOW_KIND_STUDY")


def trigger_from_proto(request: pb.CreateScheduleRequest) -> Trigger:
    every = request.every.ToTimedelta() if request.HasField("every") else None
    return Trigger(request.cron, every, request.when_feedback)


def workflow_to_proto(workflow: Workflow, *, whole: bool = True) -> pb.Workflow:
    """`whole`: with its plan's text and its record."""
    record = struct_pb2.Struct()
    if whole:
        json_format.ParseDict(dict(workflow.record), record)
    return pb.Workflow(
        id=workflow.id,
        plan=_plan_to_proto(workflow.plan, whole),
        state=_STATES[workflow.state],
        sentence=workflow.sentence,
        model=workflow.model,
        number=workflow.number,
        schedule_id=workflow.schedule_id,
        actor=workflow.actor,
        attempt=workflow.attempts,
        create_time=timestamp_to_proto(workflow.create_time),
        start_time=timestamp_to_proto(workflow.start_time) if workflow.start_time else None,
        end_time=timestamp_to_proto(workflow.end_time) if workflow.end_time else None,
        record=record,
    )


def watched_to_proto(watched: Watched) -> pb.WatchWorkflowResponse:
    return pb.WatchWorkflowResponse(
        workflow=workflow_to_proto(watched.workflow, whole=False),
        lines=[
            pb.WorkflowLine(number=line.number, create_time=timestamp_to_proto(line.create_time), text=line.text)
            for line in watched.lines
        ],
    )


def schedule_to_proto(schedule: Schedule) -> pb.Schedule:
    trigger = schedule.trigger
    made = pb.Schedule(
        id=schedule.id,
        plan=_plan_to_proto(schedule.plan, True),
        actor=schedule.actor,
        create_time=timestamp_to_proto(schedule.create_time),
        next_time=timestamp_to_proto(schedule.next_time),
        workflow_id=schedule.workflow_id,
        fault=schedule.fault,
    )
    if trigger.cron:
        made.cron = trigger.cron
    elif trigger.every is not None:
        made.every.FromTimedelta(trigger.every)
    else:
        made.when_feedback = trigger.when_feedback
    return made


def _plan_to_proto(plan: Plan, whole: bool) -> pb.WorkflowPlan:
    return pb.WorkflowPlan(kind=_KINDS[plan.kind], name=plan.name, text=plan.text if whole else "")
