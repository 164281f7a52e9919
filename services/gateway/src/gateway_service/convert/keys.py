"""API keys."""

from datetime import datetime

from gateway_service.domain.keys.audit import Entry
from gateway_service.domain.keys.key import ApiKey, Scope
from ratchet.common.v1 import access_pb2
from ratchet.gateway.v1 import key_pb2
from ratchet_kit.faults import Faults
from ratchet_kit.times import timestamp_from_proto, timestamp_to_proto

SCOPES = {
    access_pb2.SCOPE_INFERENCE: Scope.INFERENCE,
    access_pb2.SCOPE_ADMIN: Scope.ADMIN,
    access_pb2.SCOPE_PROGRAMS: Scope.PROGRAMS,
    access_pb2.SCOPE_READ: Scope.READ,
    access_pb2.SCOPE_TRAIN: Scope.TRAIN,
    access_pb2.SCOPE_RELEASE: Scope.RELEASE,
}
_SCOPES_TO_PROTO = {scope: value for value, scope in SCOPES.items()}


def scopes_from_proto(message: key_pb2.CreateKeyRequest) -> list[Scope]:
    """Inference where none is named. Raises InvalidArgument for a scope that is not known."""
    faults = Faults()
    for scope in message.scopes:
        faults.unless(scope in SCOPES, "scopes", f"must be of {', '.join(Scope)}")
    faults.raise_if_any()
    return [SCOPES[scope] for scope in message.scopes] or [Scope.INFERENCE]


def expire_time_from_proto(message: key_pb2.CreateKeyRequest) -> datetime | None:
    return timestamp_from_proto(message.expire_time) if message.HasField("expire_time") else None


def key_to_proto(key: ApiKey, tokens_this_month: int = 0) -> key_pb2.Key:
    return key_pb2.Key(
        id=key.id,
        name=key.name,
        hint=key.hint,
        scopes=sorted(_SCOPES_TO_PROTO[scope] for scope in key.scopes),
        create_time=timestamp_to_proto(key.create_time),
        revoke_time=timestamp_to_proto(key.revoke_time) if key.revoke_time else None,
        models=sorted(key.models),
        expire_time=timestamp_to_proto(key.expire_time) if key.expire_time else None,
        actor=key.actor,
        revoke_actor=key.revoke_actor,
        keep_traffic=key.keep_traffic,
        monthly_tokens=key.monthly_tokens,
        tokens_this_month=tokens_this_month,
        project=key.project,
    )


def entry_to_proto(entry: Entry) -> key_pb2.AuditEntry:
    return key_pb2.AuditEntry(
        id=entry.id,
        create_time=timestamp_to_proto(entry.create_time),
        actor=entry.actor,
        actor_name=entry.actor_name,
        method=entry.method,
        resource=entry.resource,
        code=entry.code,
        request_id=entry.request_id,
    )
