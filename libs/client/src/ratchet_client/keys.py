"""API keys of the gateway."""

from collections.abc import Sequence
from datetime import datetime

from ratchet.common.v1 import access_pb2
from ratchet.gateway.v1 import key_pb2 as pb
from ratchet_client.calls import Call, Listing, call, listing, new_request_id
from ratchet_client.resource import Resource, S, listed, unary


class Keys(Resource[S]):
    @unary
    def create(
        self,
        name: str,
        scopes: Sequence[access_pb2.Scope.ValueType] = (),
        request_id: str = "",
        models: Sequence[str] = (),
        expire_time: datetime | None = None,
        keep_traffic: bool = False,
        monthly_tokens: int = 0,
        project: str = "",
    ) -> Call[pb.CreateKeyResponse]:
        """The key and its secret, which is shown this once. Without scopes the key is for inference, without models for
        all of them, without a time it is valid until it is revoked. `keep_traffic`: what it sends and gets may be kept
        to learn from. `monthly_tokens`: those of prompts and answers that it may use in a month; 0: no limit.
        `project`: whose things it reaches; empty: your own project's."""
        request = pb.CreateKeyRequest(
            request_id=request_id or new_request_id(),
            name=name,
            scopes=scopes,
            models=models,
            keep_traffic=keep_traffic,
            monthly_tokens=monthly_tokens,
            project=project,
        )
        if expire_time is not None:
            request.expire_time.FromDatetime(expire_time)
        return call(request, pb.CreateKeyResponse, lambda reply: reply)

    @listed
    def list(self) -> Listing[pb.Key]:
        """The newest first, revoked ones too."""
        return listing(pb.ListKeysRequest(), pb.ListKeysResponse, lambda reply: reply.keys)

    @unary
    def revoke(self, key_id: str) -> Call[pb.Key]:
        """The key is invalid at once and for good; it stays listed."""
        return call(pb.RevokeKeyRequest(id=key_id), pb.RevokeKeyResponse, lambda reply: reply.key)

    @unary
    def set_traffic(self, key_id: str, keep: bool) -> Call[pb.Key]:
        """Gives or withdraws the consent to keep what it sends and gets from now on."""
        request = pb.SetKeyTrafficRequest(id=key_id, keep=keep)
        return call(request, pb.SetKeyTrafficResponse, lambda reply: reply.key)

    @listed
    def audit(self, actor: str = "", since: datetime | None = None) -> Listing[pb.AuditEntry]:
        """Changes, each with its key, newest first; by this key alone, since then, where given. `since` must be
        aware."""
        request = pb.ListAuditEntriesRequest(actor=actor)
        if since:
            request.after_time.FromDatetime(since)
        return listing(request, pb.ListAuditEntriesResponse, lambda reply: reply.entries)
