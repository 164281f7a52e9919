"""Experiments: versions of a model side by side on live traffic."""

from collections.abc import Sequence

from ratchet.gateway.v1 import experiment_pb2 as pb
from ratchet_client.calls import Call, Listing, call, listing, new_request_id, nothing
from ratchet_client.resource import Resource, S, listed, unary


class Experiments(Resource[S]):
    @unary
    def plan(self, request: pb.PlanExperimentRequest) -> Call[pb.PlanExperimentResponse]:
        """How many units and days an experiment needs to show an effect."""
        return call(request, pb.PlanExperimentResponse, lambda reply: reply)

    @unary
    def create(
        self, spec: pb.ExperimentSpec, request_id: str = "", prompts: Sequence[pb.ReplayPrompt] = ()
    ) -> Call[pb.Experiment]:
        """As a draft. Sent again under its request_id, it gives the same experiment. `prompts`: for `spec.replay`."""
        request_id = request_id or new_request_id()
        request = pb.CreateExperimentRequest(request_id=request_id, spec=spec, prompts=prompts)
        return call(request, pb.CreateExperimentResponse, lambda reply: reply.experiment)

    @unary
    def get(self, experiment_id: str, points: int = 0) -> Call[pb.Experiment]:
        """With its report as it is now, and `points` earlier ones in `past`."""
        request = pb.GetExperimentRequest(id=experiment_id, points=points)
        return call(request, pb.GetExperimentResponse, lambda reply: reply.experiment)

    @listed
    def list(self, model: str = "", name: str = "") -> Listing[pb.Experiment]:
        """The newest first, without reports; those of one model, those whose names contain `name`, where these are
        given."""
        request = pb.ListExperimentsRequest(model=model, name=name)
        return listing(request, pb.ListExperimentsResponse, lambda reply: reply.experiments)

    @unary
    def start(self, experiment_id: str) -> Call[pb.Experiment]:
        """Also goes on after a pause."""
        request = pb.StartExperimentRequest(id=experiment_id)
        return call(request, pb.StartExperimentResponse, lambda reply: reply.experiment)

    @unary
    def pause(self, experiment_id: str, reason: str = "") -> Call[pb.Experiment]:
        """The champion answers everything until it is started again."""
        request = pb.PauseExperimentRequest(id=experiment_id, reason=reason)
        return call(request, pb.PauseExperimentResponse, lambda reply: reply.experiment)

    @unary
    def stop(self, experiment_id: str, reason: str = "") -> Call[pb.Experiment]:
        """Ends it without a conclusion."""
        request = pb.StopExperimentRequest(id=experiment_id, reason=reason)
        return call(request, pb.StopExperimentResponse, lambda reply: reply.experiment)

    @unary
    def conclude(self, experiment_id: str, reason: str = "", early: bool = False) -> Call[pb.Experiment]:
        """Ends it and keeps its report. `early`: before its minimum of time and units."""
        request = pb.ConcludeExperimentRequest(id=experiment_id, reason=reason, early=early)
        return call(request, pb.ConcludeExperimentResponse, lambda reply: reply.experiment)

    @unary
    def delete(self, experiment_id: str) -> Call[None]:
        """Deletes an experiment that is not under way."""
        return nothing(pb.DeleteExperimentRequest(id=experiment_id), pb.DeleteExperimentResponse)
