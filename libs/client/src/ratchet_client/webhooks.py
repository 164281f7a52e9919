"""Webhooks of the gateway: endpoints that are told of events."""

from collections.abc import Sequence

from ratchet.gateway.v1 import webhook_pb2 as pb
from ratchet_client.calls import Call, Listing, call, listing, new_request_id, nothing
from ratchet_client.resource import Resource, S, listed, unary


class Webhooks(Resource[S]):
    @unary
    def create(
        self, url: str, events: Sequence[str] = (), description: str = "", request_id: str = ""
    ) -> Call[pb.CreateWebhookResponse]:
        """The webhook and its secret, which is shown this once. `events`: types such as "run.succeeded"; without any,
        it is told of all."""
        request = pb.CreateWebhookRequest(
            request_id=request_id or new_request_id(), url=url, events=events, description=description
        )
        return call(request, pb.CreateWebhookResponse, lambda reply: reply)

    @unary
    def get(self, webhook_id: str) -> Call[pb.Webhook]:
        return call(pb.GetWebhookRequest(id=webhook_id), pb.GetWebhookResponse, lambda reply: reply.webhook)

    @listed
    def list(self) -> Listing[pb.Webhook]:
        """The newest first."""
        return listing(pb.ListWebhooksRequest(), pb.ListWebhooksResponse, lambda reply: reply.webhooks)

    @unary
    def update(
        self, webhook_id: str, url: str, events: Sequence[str] = (), description: str = "", paused: bool = False
    ) -> Call[pb.Webhook]:
        """All of it is replaced but its secret. A paused one is told of nothing that happens meanwhile."""
        request = pb.UpdateWebhookRequest(id=webhook_id, url=url, events=events, description=description, paused=paused)
        return call(request, pb.UpdateWebhookResponse, lambda reply: reply.webhook)

    @unary
    def delete(self, webhook_id: str) -> Call[None]:
        """With its deliveries: what was not delivered yet is not."""
        return nothing(pb.DeleteWebhookRequest(id=webhook_id), pb.DeleteWebhookResponse)

    @listed
    def deliveries(self, webhook_id: str) -> Listing[pb.WebhookDelivery]:
        """Its deliveries, sent or waiting, newest first."""
        request = pb.ListWebhookDeliveriesRequest(id=webhook_id)
        return listing(request, pb.ListWebhookDeliveriesResponse, lambda reply: reply.deliveries)
