"""Training runs, their steps and checkpoints."""

from datetime import datetime

from ratchet.common.v1 import model_pb2, verdict_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_client.calls import Call, Listing, Stream, call, listing, new_request_id, nothing, stream
from ratchet_client.resource import Resource, S, last, listed, streamed, unary


class Runs(Resource[S]):
    @unary
    def create(self, spec: pb.RunSpec, request_id: str = "", *, validate_only: bool = False) -> Call[pb.Run]:
        """Returns at once: the run is queued. Sent again under its request_id, it gives the same run. `validate_only`:
        nothing is stored; it is only looked whether the run could be made."""
        request = pb.CreateRunRequest(request_id=request_id or new_request_id(), spec=spec, validate_only=validate_only)
        return call(request, pb.CreateRunResponse, lambda reply: reply.run)

    @unary
    def get(self, run_id: str) -> Call[pb.Run]:
        return call(pb.GetRunRequest(id=run_id), pb.GetRunResponse, lambda reply: reply.run)

    @listed
    def list(
        self,
        state: pb.Run.State.ValueType = pb.Run.STATE_UNSPECIFIED,
        model: str = "",
        name: str = "",
        since: datetime | None = None,
    ) -> Listing[pb.Run]:
        """The newest first; only runs in that state, of that model (their base's, or the one that they make a version
        of), with a name that contains `name`, created since then, where these are given. `since` must be aware."""
        request = pb.ListRunsRequest(state=state, model=model, name=name)
        if since:
            request.after_time.FromDatetime(since)
        return listing(request, pb.ListRunsResponse, lambda reply: reply.runs)

    @unary
    def cancel(self, run_id: str) -> Call[pb.Run]:
        """Its checkpoints stay."""
        return call(pb.CancelRunRequest(id=run_id), pb.CancelRunResponse, lambda reply: reply.run)

    @unary
    def resume(self, run_id: str) -> Call[pb.Run]:
        """One that failed or was cancelled goes on at its last checkpoint."""
        return call(pb.ResumeRunRequest(id=run_id), pb.ResumeRunResponse, lambda reply: reply.run)

    @streamed
    def watch(self, run_id: str, after_step: int = 0) -> Stream[pb.WatchRunResponse]:
        """The run and its new steps at every change, until it has ended."""
        request = pb.WatchRunRequest(id=run_id, after_step=after_step)
        return stream(request, pb.WatchRunResponse, lambda reply: reply)

    @last
    def wait(self, run_id: str) -> Stream[pb.Run]:
        """The run, when it has ended."""
        return stream(pb.WatchRunRequest(id=run_id), pb.WatchRunResponse, lambda reply: reply.run)

    @unary
    def cluster(self) -> Call[pb.Cluster]:
        """The machines that runs are trained on, which runs are on them, and which wait."""
        return call(pb.GetClusterRequest(), pb.GetClusterResponse, lambda reply: reply.cluster)

    @unary
    def delete(self, run_id: str) -> Call[None]:
        """A run that has ended, with its steps, checkpoints and files. Versions that it registered stay."""
        return nothing(pb.DeleteRunRequest(id=run_id), pb.DeleteRunResponse)

    @listed
    def steps(self, run_id: str) -> Listing[pb.Step]:
        """First to last."""
        return listing(pb.ListStepsRequest(run_id=run_id), pb.ListStepsResponse, lambda reply: reply.steps)

    @listed
    def samples(
        self,
        run_id: str,
        step: int | None = None,
        problem_id: str = "",
        verdict: verdict_pb2.Verdict.ValueType = verdict_pb2.VERDICT_UNSPECIFIED,
        below: float | None = None,
    ) -> Listing[pb.TrainingSample]:
        """Samples of training, the newest step first, and the lowest reward first in a step; those of one step, of one
        problem, of one verdict, with a reward below one, where they are named."""
        request = pb.ListTrainingSamplesRequest(
            run_id=run_id, step=step, problem_id=problem_id, verdict=verdict, below=below
        )
        return listing(request, pb.ListTrainingSamplesResponse, lambda reply: reply.samples)

    @unary
    def episode(self, run_id: str, sample_id: str, *, tokens: bool = False) -> Call[pb.GetTrainingSampleResponse]:
        """A sample with the record of its episode, whose form `ratchet_episodes.record` reads. `tokens`: with token ids
        and log-probs."""
        request = pb.GetTrainingSampleRequest(run_id=run_id, id=sample_id, record=True, tokens=tokens)
        return call(request, pb.GetTrainingSampleResponse, lambda reply: reply)

    @unary
    def sample(self, run_id: str, sample_id: str) -> Call[pb.TrainingSample]:
        """`sample_id`: "40-3-1"."""
        return call(
            pb.GetTrainingSampleRequest(run_id=run_id, id=sample_id),
            pb.GetTrainingSampleResponse,
            lambda reply: reply.sample,
        )

    @listed
    def files(self, run_id: str) -> Listing[pb.RunFile]:
        """On record: the config that verl got, traces; by name."""
        return listing(pb.ListRunFilesRequest(run_id=run_id), pb.ListRunFilesResponse, lambda reply: reply.files)

    @unary
    def read_file(self, run_id: str, name: str, offset: int = 0) -> Call[pb.ReadRunFileResponse]:
        """At most 1 MiB of one of them from `offset` on, and the size of all of it."""
        request = pb.ReadRunFileRequest(run_id=run_id, name=name, offset=offset)
        return call(request, pb.ReadRunFileResponse, lambda reply: reply)

    @listed
    def checkpoints(self, run_id: str) -> Listing[pb.Checkpoint]:
        """First to last."""
        request = pb.ListCheckpointsRequest(run_id=run_id)
        return listing(request, pb.ListCheckpointsResponse, lambda reply: reply.checkpoints)

    @unary
    def export(self, run_id: str, step: int, model: str = "", request_id: str = "") -> Call[model_pb2.VersionRef]:
        """A version of the model of a step, with the run's lineage; of `model`, or of the run's output_model. It is
        READY once its files are copied."""
        request = pb.ExportCheckpointRequest(
            request_id=request_id or new_request_id(), run_id=run_id, step=step, model=model
        )
        return call(request, pb.ExportCheckpointResponse, lambda reply: reply.version)
