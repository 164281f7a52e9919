"""gRPC in. REST calls the same methods in this process, without a context, so that both answer alike."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TypeAlias

from gateway_service import convert
from gateway_service.domain.completions.completer import Completer
from gateway_service.domain.completions.completion import CompletionResponse, ResponseDelta
from gateway_service.domain.experiments.experiments import Experiments
from gateway_service.domain.failures import Failures
from gateway_service.domain.keys.audit import AuditLog
from gateway_service.domain.keys.caller import caller
from gateway_service.domain.keys.costs import Costs
from gateway_service.domain.keys.keys import Keys
from gateway_service.domain.keys.quotas import Quotas
from gateway_service.domain.platform import Platform
from gateway_service.domain.releases.releases import Releases
from gateway_service.domain.serving import Serving
from gateway_service.domain.traffic.exchanges import Exchanges
from gateway_service.domain.traffic.feedback import Feedback
from gateway_service.domain.version_health import VersionHealth
from gateway_service.domain.webhooks.webhooks import Webhooks
from gateway_service.domain.workflows.schedules import Schedules
from gateway_service.domain.workflows.workflows import Workflows
from ratchet.gateway.v1 import (
    experiment_pb2,
    experiment_pb2_grpc,
    gateway_pb2_grpc,
    key_pb2,
    key_pb2_grpc,
    platform_pb2,
    platform_pb2_grpc,
    release_pb2,
    release_pb2_grpc,
    traffic_pb2,
    traffic_pb2_grpc,
    webhook_pb2,
    webhook_pb2_grpc,
    workflow_pb2,
    workflow_pb2_grpc,
)
from ratchet.gateway.v1 import gateway_pb2 as pb
from ratchet_kit import server
from ratchet_kit.times import since_from_proto, timestamp_from_proto
from ratchet_policies.convert_nodes import node_to_proto

Context: TypeAlias = server.Context | None


async def _say(context: Context, answer: CompletionResponse | ResponseDelta, begin: float) -> None:
    if context is not None:
        await context.send_initial_metadata(tuple(convert.headers_of(answer, time.perf_counter() - begin).items()))


class GatewayServicer(gateway_pb2_grpc.GatewayServiceServicer):
    def __init__(self, completer: Completer, feedback: Feedback) -> None:
        self._completer = completer
        self._feedback = feedback

    async def Complete(self, request: pb.CompleteRequest, context: Context = None) -> pb.CompleteResponse:
        begin = time.perf_counter()
        response = await self._completer.complete(convert.completion_request_from_proto(request))
        await _say(context, response, begin)
        return convert.completion_response_to_proto(response)

    async def StreamComplete(
        self, request: pb.StreamCompleteRequest, context: Context = None
    ) -> AsyncIterator[pb.StreamCompleteResponse]:
        begin, has_said = time.perf_counter(), False
        completion_request = convert.completion_request_from_proto(request.request)
        async with aclosing(self._completer.stream(completion_request)) as deltas:
            async for delta in deltas:
                if not has_said:
                    await _say(context, delta, begin)
                    has_said = True
                yield convert.response_delta_to_proto(delta)

    async def CreateFeedback(
        self, request: pb.CreateFeedbackRequest, context: Context = None
    ) -> pb.CreateFeedbackResponse:
        score = await self._feedback.give(convert.feedback_from_proto(request))
        return pb.CreateFeedbackResponse(score=score)

    async def CountFeedback(
        self, request: pb.CountFeedbackRequest, context: Context = None
    ) -> pb.CountFeedbackResponse:
        since = timestamp_from_proto(request.after_time) if request.HasField("after_time") else None
        return pb.CountFeedbackResponse(scored=await self._feedback.count(request.model, since))


class ReleaseServicer(release_pb2_grpc.ReleaseServiceServicer):
    def __init__(self, releases: Releases) -> None:
        self._releases = releases

    async def CreateRelease(
        self, request: release_pb2.CreateReleaseRequest, context: Context = None
    ) -> release_pb2.CreateReleaseResponse:
        view = await self._releases.create(
            request.request_id, convert.release_spec_from_proto(request.spec), caller().id
        )
        return release_pb2.CreateReleaseResponse(release=convert.release_to_proto(view))

    async def GetRelease(
        self, request: release_pb2.GetReleaseRequest, context: Context = None
    ) -> release_pb2.GetReleaseResponse:
        view = await self._releases.get(request.id)
        return release_pb2.GetReleaseResponse(release=convert.release_to_proto(view))

    async def ListReleases(
        self, request: release_pb2.ListReleasesRequest, context: Context = None
    ) -> release_pb2.ListReleasesResponse:
        page = await self._releases.page(request.model, request.page_size, request.page_token)
        releases = page.map(convert.release_to_proto)
        return release_pb2.ListReleasesResponse(releases=releases.items, next_page_token=page.next_page_token)

    async def RollbackRelease(
        self, request: release_pb2.RollbackReleaseRequest, context: Context = None
    ) -> release_pb2.RollbackReleaseResponse:
        view = await self._releases.roll_back(request.id, request.reason, caller().id)
        return release_pb2.RollbackReleaseResponse(release=convert.release_to_proto(view))

    async def PauseRelease(
        self, request: release_pb2.PauseReleaseRequest, context: Context = None
    ) -> release_pb2.PauseReleaseResponse:
        view = await self._releases.pause(request.id, request.reason, caller().id)
        return release_pb2.PauseReleaseResponse(release=convert.release_to_proto(view))

    async def ResumeRelease(
        self, request: release_pb2.ResumeReleaseRequest, context: Context = None
    ) -> release_pb2.ResumeReleaseResponse:
        view = await self._releases.resume(request.id, request.reason, caller().id)
        return release_pb2.ResumeReleaseResponse(release=convert.release_to_proto(view))

    async def PromoteRelease(
        self, request: release_pb2.PromoteReleaseRequest, context: Context = None
    ) -> release_pb2.PromoteReleaseResponse:
        view = await self._releases.promote(request.id, request.reason, caller().id)
        return release_pb2.PromoteReleaseResponse(release=convert.release_to_proto(view))

    async def WatchRelease(
        self, request: release_pb2.WatchReleaseRequest, context: Context = None
    ) -> AsyncIterator[release_pb2.WatchReleaseResponse]:
        async for view in self._releases.watch(request.id):
            yield release_pb2.WatchReleaseResponse(release=convert.release_to_proto(view))


class ExperimentServicer(experiment_pb2_grpc.ExperimentServiceServicer):
    def __init__(self, experiments: Experiments) -> None:
        self._experiments = experiments

    async def PlanExperiment(
        self, request: experiment_pb2.PlanExperimentRequest, context: Context = None
    ) -> experiment_pb2.PlanExperimentResponse:
        plan = await self._experiments.plan(convert.plan_request_from_proto(request))
        return convert.plan_to_proto(plan)

    async def CreateExperiment(
        self, request: experiment_pb2.CreateExperimentRequest, context: Context = None
    ) -> experiment_pb2.CreateExperimentResponse:
        spec, prompts = convert.experiment_spec_from_proto(request.spec), convert.replay_prompts_from_proto(request)
        experiment = await self._experiments.create(request.request_id, spec, caller().id, prompts)
        return experiment_pb2.CreateExperimentResponse(experiment=convert.experiment_to_proto(experiment))

    async def GetExperiment(
        self, request: experiment_pb2.GetExperimentRequest, context: Context = None
    ) -> experiment_pb2.GetExperimentResponse:
        experiment = await self._experiments.get(request.id, request.points)
        return experiment_pb2.GetExperimentResponse(experiment=convert.experiment_to_proto(experiment))

    async def ListExperiments(
        self, request: experiment_pb2.ListExperimentsRequest, context: Context = None
    ) -> experiment_pb2.ListExperimentsResponse:
        page = await self._experiments.page(request.model, request.page_size, request.page_token, request.name)
        experiments = page.map(convert.experiment_to_proto)
        return experiment_pb2.ListExperimentsResponse(
            experiments=experiments.items, next_page_token=page.next_page_token
        )

    async def StartExperiment(
        self, request: experiment_pb2.StartExperimentRequest, context: Context = None
    ) -> experiment_pb2.StartExperimentResponse:
        experiment = await self._experiments.start(request.id, caller().id)
        return experiment_pb2.StartExperimentResponse(experiment=convert.experiment_to_proto(experiment))

    async def PauseExperiment(
        self, request: experiment_pb2.PauseExperimentRequest, context: Context = None
    ) -> experiment_pb2.PauseExperimentResponse:
        experiment = await self._experiments.pause(request.id, request.reason, caller().id)
        return experiment_pb2.PauseExperimentResponse(experiment=convert.experiment_to_proto(experiment))

    async def StopExperiment(
        self, request: experiment_pb2.StopExperimentRequest, context: Context = None
    ) -> experiment_pb2.StopExperimentResponse:
        experiment = await self._experiments.stop(request.id, request.reason, caller().id)
        return experiment_pb2.StopExperimentResponse(experiment=convert.experiment_to_proto(experiment))

    async def ConcludeExperiment(
        self, request: experiment_pb2.ConcludeExperimentRequest, context: Context = None
    ) -> experiment_pb2.ConcludeExperimentResponse:
        experiment = await self._experiments.conclude(request.id, request.reason, request.early, caller().id)
        return experiment_pb2.ConcludeExperimentResponse(experiment=convert.experiment_to_proto(experiment))

    async def DeleteExperiment(
        self, request: experiment_pb2.DeleteExperimentRequest, context: Context = None
    ) -> experiment_pb2.DeleteExperimentResponse:
        await self._experiments.delete(request.id)
        return experiment_pb2.DeleteExperimentResponse()


class KeyServicer(key_pb2_grpc.KeyServiceServicer):
    def __init__(self, keys: Keys, audit: AuditLog, quotas: Quotas) -> None:
        self._keys = keys
        self._audit = audit
        self._quotas = quotas

    async def CreateKey(self, request: key_pb2.CreateKeyRequest, context: Context = None) -> key_pb2.CreateKeyResponse:
        new = await self._keys.create(
            request.request_id,
            request.name,
            convert.scopes_from_proto(request),
            request.models,
            convert.expire_time_from_proto(request),
            actor=caller().id,
            keep_traffic=request.keep_traffic,
            monthly_tokens=request.monthly_tokens,
            project=request.project,
        )
        return key_pb2.CreateKeyResponse(key=convert.key_to_proto(new.key), secret=new.secret)

    async def ListKeys(self, request: key_pb2.ListKeysRequest, context: Context = None) -> key_pb2.ListKeysResponse:
        page = await self._keys.page(request.page_size, request.page_token)
        keys = page.map(lambda key: convert.key_to_proto(key, self._quotas.tokens(key.id)))
        return key_pb2.ListKeysResponse(keys=keys.items, next_page_token=page.next_page_token)

    async def RevokeKey(self, request: key_pb2.RevokeKeyRequest, context: Context = None) -> key_pb2.RevokeKeyResponse:
        return key_pb2.RevokeKeyResponse(key=convert.key_to_proto(await self._keys.revoke(request.id, caller().id)))

    async def SetKeyTraffic(
        self, request: key_pb2.SetKeyTrafficRequest, context: Context = None
    ) -> key_pb2.SetKeyTrafficResponse:
        key = await self._keys.set_traffic(request.id, request.keep)
        return key_pb2.SetKeyTrafficResponse(key=convert.key_to_proto(key))

    async def ListAuditEntries(
        self, request: key_pb2.ListAuditEntriesRequest, context: Context = None
    ) -> key_pb2.ListAuditEntriesResponse:
        page = await self._audit.page(request.actor, since_from_proto(request), request.page_size, request.page_token)
        found = page.map(convert.entry_to_proto)
        return key_pb2.ListAuditEntriesResponse(entries=found.items, next_page_token=page.next_page_token)


class TrafficServicer(traffic_pb2_grpc.TrafficServiceServicer):
    def __init__(self, exchanges: Exchanges) -> None:
        self._exchanges = exchanges

    async def ListExchanges(
        self, request: traffic_pb2.ListExchangesRequest, context: Context = None
    ) -> traffic_pb2.ListExchangesResponse:
        selection = convert.selection_from_proto(request)
        page = await self._exchanges.page(selection, request.page_size, request.page_token)
        found = page.map(convert.exchange_to_proto)
        return traffic_pb2.ListExchangesResponse(exchanges=found.items, next_page_token=page.next_page_token)

    async def GetTrafficEpisode(
        self, request: traffic_pb2.GetTrafficEpisodeRequest, context: Context = None
    ) -> traffic_pb2.GetTrafficEpisodeResponse:
        episode = await self._exchanges.episode(request.completion_id)
        return await asyncio.to_thread(convert.episode_to_proto, episode)

    async def ListPreferencePairs(
        self, request: traffic_pb2.ListPreferencePairsRequest, context: Context = None
    ) -> traffic_pb2.ListPreferencePairsResponse:
        selection = convert.selection_from_proto(request)
        page = await self._exchanges.pairs(selection, request.page_size, request.page_token)
        return convert.pairs_to_proto(page)

    async def ListAcceptedProblems(
        self, request: traffic_pb2.ListAcceptedProblemsRequest, context: Context = None
    ) -> traffic_pb2.ListAcceptedProblemsResponse:
        selection = convert.selection_from_proto(request)
        page = await self._exchanges.problems(selection, request.page_size, request.page_token)
        found = [convert.problem_to_proto(lesson) for lesson in page.items]
        return traffic_pb2.ListAcceptedProblemsResponse(problems=found, next_page_token=page.next_page_token)

    async def ForgetTraffic(
        self, request: traffic_pb2.ForgetTrafficRequest, context: Context = None
    ) -> traffic_pb2.ForgetTrafficResponse:
        removed = await self._exchanges.forget(*convert.unit_from_proto(request))
        return traffic_pb2.ForgetTrafficResponse(removed=removed)


class PlatformServicer(platform_pb2_grpc.PlatformServiceServicer):
    def __init__(
        self, platform: Platform, failures: Failures, serving: Serving, health: VersionHealth, costs: Costs
    ) -> None:
        self._platform = platform
        self._failures = failures
        self._serving = serving
        self._health = health
        self._costs = costs

    async def GetPlatform(
        self, request: platform_pb2.GetPlatformRequest, context: Context = None
    ) -> platform_pb2.GetPlatformResponse:
        found = await self._platform.health()
        services = [convert.health_to_proto(name, health) for name, health in found]
        return platform_pb2.GetPlatformResponse(services=services)

    async def GetCatalogue(
        self, request: platform_pb2.GetCatalogueRequest, context: Context = None
    ) -> platform_pb2.GetCatalogueResponse:
        return convert.catalogue_to_proto()

    async def GetFailures(
        self, request: platform_pb2.GetFailuresRequest, context: Context = None
    ) -> platform_pb2.GetFailuresResponse:
        return convert.failures_to_proto(await self._failures.latest(since_from_proto(request)))

    async def GetCosts(
        self, request: platform_pb2.GetCostsRequest, context: Context = None
    ) -> platform_pb2.GetCostsResponse:
        found = await self._costs.sums(convert.by_from_proto(request.by), since_from_proto(request))
        return convert.costs_to_proto(found)

    async def ListNodes(
        self, request: platform_pb2.ListNodesRequest, context: Context = None
    ) -> platform_pb2.ListNodesResponse:
        page = (await self._platform.nodes(request.page_size, request.page_token)).map(node_to_proto)
        return platform_pb2.ListNodesResponse(nodes=page.items, next_page_token=page.next_page_token)

    async def DrainNode(
        self, request: platform_pb2.DrainNodeRequest, context: Context = None
    ) -> platform_pb2.DrainNodeResponse:
        node = await self._platform.drain(request.address, draining=True)
        return platform_pb2.DrainNodeResponse(node=node_to_proto(node))

    async def ResumeNode(
        self, request: platform_pb2.ResumeNodeRequest, context: Context = None
    ) -> platform_pb2.ResumeNodeResponse:
        node = await self._platform.drain(request.address, draining=False)
        return platform_pb2.ResumeNodeResponse(node=node_to_proto(node))

    async def EnsureVersionLoaded(
        self, request: platform_pb2.EnsureVersionLoadedRequest, context: Context = None
    ) -> platform_pb2.EnsureVersionLoadedResponse:
        policy_id = await self._serving.start(convert.version_from_fields(request))
        return platform_pb2.EnsureVersionLoadedResponse(policy_id=policy_id)

    async def UnloadVersion(
        self, request: platform_pb2.UnloadVersionRequest, context: Context = None
    ) -> platform_pb2.UnloadVersionResponse:
        await self._serving.unload(convert.version_from_fields(request))
        return platform_pb2.UnloadVersionResponse()

    async def GetVersionHealth(
        self, request: platform_pb2.GetVersionHealthRequest, context: Context = None
    ) -> platform_pb2.GetVersionHealthResponse:
        health = await self._health.get(convert.version_from_fields(request), request.days)
        return convert.version_health_to_proto(health)


class WebhookServicer(webhook_pb2_grpc.WebhookServiceServicer):
    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks

    async def CreateWebhook(
        self, request: webhook_pb2.CreateWebhookRequest, context: Context = None
    ) -> webhook_pb2.CreateWebhookResponse:
        new = await self._webhooks.create(
            request.request_id, request.url, request.events, request.description, caller().id
        )
        return webhook_pb2.CreateWebhookResponse(webhook=convert.webhook_to_proto(new.webhook), secret=new.secret)

    async def GetWebhook(
        self, request: webhook_pb2.GetWebhookRequest, context: Context = None
    ) -> webhook_pb2.GetWebhookResponse:
        return webhook_pb2.GetWebhookResponse(webhook=convert.webhook_to_proto(await self._webhooks.get(request.id)))

    async def ListWebhooks(
        self, request: webhook_pb2.ListWebhooksRequest, context: Context = None
    ) -> webhook_pb2.ListWebhooksResponse:
        page = (await self._webhooks.page(request.page_size, request.page_token)).map(convert.webhook_to_proto)
        return webhook_pb2.ListWebhooksResponse(webhooks=page.items, next_page_token=page.next_page_token)

    async def UpdateWebhook(
        self, request: webhook_pb2.UpdateWebhookRequest, context: Context = None
    ) -> webhook_pb2.UpdateWebhookResponse:
        webhook = await self._webhooks.update(
            request.id, request.url, request.events, request.description, request.paused
        )
        return webhook_pb2.UpdateWebhookResponse(webhook=convert.webhook_to_proto(webhook))

    async def DeleteWebhook(
        self, request: webhook_pb2.DeleteWebhookRequest, context: Context = None
    ) -> webhook_pb2.DeleteWebhookResponse:
        await self._webhooks.delete(request.id)
        return webhook_pb2.DeleteWebhookResponse()

    async def ListWebhookDeliveries(
        self, request: webhook_pb2.ListWebhookDeliveriesRequest, context: Context = None
    ) -> webhook_pb2.ListWebhookDeliveriesResponse:
        page = await self._webhooks.deliveries(request.id, request.page_size, request.page_token)
        found = page.map(convert.delivery_to_proto)
        return webhook_pb2.ListWebhookDeliveriesResponse(deliveries=found.items, next_page_token=page.next_page_token)


class WorkflowServicer(workflow_pb2_grpc.WorkflowServiceServicer):
    def __init__(self, workflows: Workflows, schedules: Schedules) -> None:
        self._workflows = workflows
        self._schedules = schedules

    async def CreateWorkflow(
        self, request: workflow_pb2.CreateWorkflowRequest, context: Context = None
    ) -> workflow_pb2.CreateWorkflowResponse:
        plan = convert.workflow_plan_from_proto(request.plan)
        made = await self._workflows.create(request.request_id, plan, caller().id, validate_only=request.validate_only)
        return workflow_pb2.CreateWorkflowResponse(workflow=convert.workflow_to_proto(made))

    async def GetWorkflow(
        self, request: workflow_pb2.GetWorkflowRequest, context: Context = None
    ) -> workflow_pb2.GetWorkflowResponse:
        found = await self._workflows.get(request.id)
        return workflow_pb2.GetWorkflowResponse(workflow=convert.workflow_to_proto(found))

    async def ListWorkflows(
        self, request: workflow_pb2.ListWorkflowsRequest, context: Context = None
    ) -> workflow_pb2.ListWorkflowsResponse:
        page = (await self._workflows.page(request.page_size, request.page_token)).map(convert.workflow_to_proto)
        return workflow_pb2.ListWorkflowsResponse(workflows=page.items, next_page_token=page.next_page_token)

    async def CancelWorkflow(
        self, request: workflow_pb2.CancelWorkflowRequest, context: Context = None
    ) -> workflow_pb2.CancelWorkflowResponse:
        cancelled = await self._workflows.cancel(request.id)
        return workflow_pb2.CancelWorkflowResponse(workflow=convert.workflow_to_proto(cancelled))

    async def ResumeWorkflow(
        self, request: workflow_pb2.ResumeWorkflowRequest, context: Context = None
    ) -> workflow_pb2.ResumeWorkflowResponse:
        resumed = await self._workflows.resume(request.id)
        return workflow_pb2.ResumeWorkflowResponse(workflow=convert.workflow_to_proto(resumed))

    async def WatchWorkflow(
        self, request: workflow_pb2.WatchWorkflowRequest, context: Context = None
    ) -> AsyncIterator[workflow_pb2.WatchWorkflowResponse]:
        async with aclosing(self._workflows.watch(request.id, request.after_line)) as found:
            async for one in found:
                yield convert.watched_to_proto(one)

    async def CreateSchedule(
        self, request: workflow_pb2.CreateScheduleRequest, context: Context = None
    ) -> workflow_pb2.CreateScheduleResponse:
        plan, trigger = convert.workflow_plan_from_proto(request.plan), convert.trigger_from_proto(request)
        made = await self._schedules.create(request.request_id, plan, trigger, caller().id)
        return workflow_pb2.CreateScheduleResponse(schedule=convert.schedule_to_proto(made))

    async def GetSchedule(
        self, request: workflow_pb2.GetScheduleRequest, context: Context = None
    ) -> workflow_pb2.GetScheduleResponse:
        found = await self._schedules.get(request.id)
        return workflow_pb2.GetScheduleResponse(schedule=convert.schedule_to_proto(found))

    async def ListSchedules(
        self, request: workflow_pb2.ListSchedulesRequest, context: Context = None
    ) -> workflow_pb2.ListSchedulesResponse:
        page = (await self._schedules.page(request.page_size, request.page_token)).map(convert.schedule_to_proto)
        return workflow_pb2.ListSchedulesResponse(schedules=page.items, next_page_token=page.next_page_token)

    async def DeleteSchedule(
        self, request: workflow_pb2.DeleteScheduleRequest, context: Context = None
    ) -> workflow_pb2.DeleteScheduleResponse:
        await self._schedules.delete(request.id)
        return workflow_pb2.DeleteScheduleResponse()
