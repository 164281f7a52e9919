"""Protobuf to the domain and back, for the gateway's own RPCs. Pure."""

from gateway_service.convert.completions import (
    completion_request_from_proto,
    completion_response_to_proto,
    headers_of,
    response_delta_to_proto,
)
from gateway_service.convert.experiments import (
    experiment_spec_from_proto,
    experiment_to_proto,
    plan_request_from_proto,
    plan_to_proto,
    replay_prompts_from_proto,
)
from gateway_service.convert.keys import SCOPES, entry_to_proto, expire_time_from_proto, key_to_proto, scopes_from_proto
from gateway_service.convert.platform import (
    by_from_proto,
    catalogue_to_proto,
    costs_to_proto,
    failures_to_proto,
    health_to_proto,
    version_from_fields,
    version_health_to_proto,
)
from gateway_service.convert.releases import release_spec_from_proto, release_to_proto
from gateway_service.convert.traffic import (
    episode_to_proto,
    exchange_to_proto,
    feedback_from_proto,
    pairs_to_proto,
    problem_to_proto,
    selection_from_proto,
    unit_from_proto,
)
from gateway_service.convert.webhooks import delivery_to_proto, webhook_to_proto
from gateway_service.convert.workflows import (
    schedule_to_proto,
    trigger_from_proto,
    watched_to_proto,
    workflow_plan_from_proto,
    workflow_to_proto,
)

__all__ = [
    "SCOPES",
    "by_from_proto",
    "catalogue_to_proto",
    "completion_request_from_proto",
    "completion_response_to_proto",
    "costs_to_proto",
    "delivery_to_proto",
    "entry_to_proto",
    "episode_to_proto",
    "exchange_to_proto",
    "experiment_spec_from_proto",
    "experiment_to_proto",
    "expire_time_from_proto",
    "failures_to_proto",
    "feedback_from_proto",
    "headers_of",
    "health_to_proto",
    "key_to_proto",
    "pairs_to_proto",
    "plan_request_from_proto",
    "plan_to_proto",
    "problem_to_proto",
    "release_spec_from_proto",
    "release_to_proto",
    "replay_prompts_from_proto",
    "response_delta_to_proto",
    "schedule_to_proto",
    "scopes_from_proto",
    "selection_from_proto",
    "trigger_from_proto",
    "unit_from_proto",
    "version_from_fields",
    "version_health_to_proto",
    "watched_to_proto",
    "webhook_to_proto",
    "workflow_plan_from_proto",
    "workflow_to_proto",
]
