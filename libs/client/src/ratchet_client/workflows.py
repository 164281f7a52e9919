"""Workflows, which the platform does without a command that waits, and the schedules that create them."""

from datetime import timedelta

from ratchet.gateway.v1 import workflow_pb2 as pb
from ratchet_client.calls import Call, Listing, Stream, call, listing, new_request_id, nothing, stream
from ratchet_client.resource import Resource, S, listed, streamed, unary

TURN, STUDY = pb.WORKFLOW_KIND_TURN, pb.WORKFLOW_KIND_STUDY


class Workflows(Resource[S]):
    @unary
    def create(self, plan: pb.WorkflowPlan, request_id: str = "", *, validate_only: bool = False) -> Call[pb.Workflow]:
        """Returns at once, when the plan has been checked: the workflow is queued. Sent again under its request_id, it
        gives the same workflow. `plan.text`: YAML, or JSON. `validate_only`: nothing is stored."""
        request = pb.CreateWorkflowRequest(
            request_id=request_id or new_request_id(), plan=plan, validate_only=validate_only
        )
        return call(request, pb.CreateWorkflowResponse, lambda reply: reply.workflow)

    @unary
    def get(self, workflow_id: str) -> Call[pb.Workflow]:
        """With its plan and its record."""
        return call(pb.GetWorkflowRequest(id=workflow_id), pb.GetWorkflowResponse, lambda reply: reply.workflow)

    @listed
    def list(self) -> Listing[pb.Workflow]:
        """The newest first, without plans and records."""
        return listing(pb.ListWorkflowsRequest(), pb.ListWorkflowsResponse, lambda reply: reply.workflows)

    @unary
    def cancel(self, workflow_id: str) -> Call[pb.Workflow]:
        """With its runs and evaluations under way; a release goes on."""
        return call(pb.CancelWorkflowRequest(id=workflow_id), pb.CancelWorkflowResponse, lambda reply: reply.workflow)

    @unary
    def resume(self, workflow_id: str) -> Call[pb.Workflow]:
        """One that failed or was cancelled goes on where it was."""
        return call(pb.ResumeWorkflowRequest(id=workflow_id), pb.ResumeWorkflowResponse, lambda reply: reply.workflow)

    @streamed
    def watch(self, workflow_id: str, after_line: int = 0) -> Stream[pb.WatchWorkflowResponse]:
        """The workflow and its new lines at every change, until it has ended."""
        request = pb.WatchWorkflowRequest(id=workflow_id, after_line=after_line)
        return stream(request, pb.WatchWorkflowResponse, lambda reply: reply)


class Schedules(Resource[S]):
    @unary
    def create(
        self,
        plan: pb.WorkflowPlan,
        *,
        cron: str = "",
        every: timedelta | None = None,
        when_feedback: int = 0,
        request_id: str = "",
    ) -> Call[pb.Schedule]:
        """One of `cron` (five fields, UTC), `every` and `when_feedback`: answers with a score since the last workflow
        was created."""
        request = pb.CreateScheduleRequest(request_id=request_id or new_request_id(), plan=plan)
        if cron:
            request.cron = cron
        if every is not None:
            request.every.FromTimedelta(every)
        if when_feedback:
            request.when_feedback = when_feedback
        return call(request, pb.CreateScheduleResponse, lambda reply: reply.schedule)

    @unary
    def get(self, schedule_id: str) -> Call[pb.Schedule]:
        return call(pb.GetScheduleRequest(id=schedule_id), pb.GetScheduleResponse, lambda reply: reply.schedule)

    @listed
    def list(self) -> Listing[pb.Schedule]:
        """The newest first."""
        return listing(pb.ListSchedulesRequest(), pb.ListSchedulesResponse, lambda reply: reply.schedules)

    @unary
    def delete(self, schedule_id: str) -> Call[None]:
        """Its workflows stay, and go on."""
        return nothing(pb.DeleteScheduleRequest(id=schedule_id), pb.DeleteScheduleResponse)
