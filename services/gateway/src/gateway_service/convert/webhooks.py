"""Webhooks."""

from gateway_service.domain.webhooks.webhook import Delivery, State, Webhook
from ratchet.gateway.v1 import webhook_pb2
from ratchet_kit.times import timestamp_to_proto

_STATES = {
    State.WAITING: webhook_pb2.WebhookDelivery.STATE_WAITING,
    State.DELIVERED: webhook_pb2.WebhookDelivery.STATE_DELIVERED,
    State.FAILED: webhook_pb2.WebhookDelivery.STATE_FAILED,
}


def webhook_to_proto(webhook: Webhook) -> webhook_pb2.Webhook:
    return webhook_pb2.Webhook(
        id=webhook.id,
        url=webhook.url,
        events=sorted(webhook.kinds),
        description=webhook.description,
        paused=webhook.paused,
        create_time=timestamp_to_proto(webhook.create_time),
        actor=webhook.actor,
    )


def delivery_to_proto(delivery: Delivery) -> webhook_pb2.WebhookDelivery:
    waits = delivery.state is State.WAITING
    return webhook_pb2.WebhookDelivery(
        event_id=delivery.event_id,
        type=delivery.kind,
        state=_STATES[delivery.state],
        attempts=delivery.attempts,
        status=delivery.status,
        error=delivery.error,
        create_time=timestamp_to_proto(delivery.create_time),
        next_time=timestamp_to_proto(delivery.next_time) if waits else None,
        end_time=timestamp_to_proto(delivery.end_time) if delivery.end_time else None,
        body=delivery.body,
    )
