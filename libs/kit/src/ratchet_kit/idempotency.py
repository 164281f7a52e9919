"""Creates that may be sent twice."""

import hashlib
import json
from dataclasses import dataclass

from ratchet_kit.errors import FieldViolation, InvalidArgument
from ratchet_kit.ids import new_id


@dataclass(frozen=True, slots=True)
class Request:
    """What makes a create idempotent: the caller's id, and a digest of what was asked under it."""

    id: str
    fingerprint: str

    @classmethod
    def of(cls, request_id: str, *asked: object) -> "Request":
        """`asked` is JSON. Without an id the request gets one of its own, so that it is never a repetition."""
        content = json.dumps(asked, sort_keys=True)
        return cls(request_id or new_id("req"), hashlib.sha256(content.encode()).hexdigest())

    def check_same(self, fingerprint: str, what: str) -> None:
        """Raises InvalidArgument when this id was used before to ask for something else: another `what`."""
        if self.fingerprint != fingerprint:
            text = f"{self.id!r} was used before, for another {what}; use a new one"
            raise InvalidArgument(f"request_id {text}", [FieldViolation("request_id", text)])
