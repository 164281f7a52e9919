"""HTTP routes and API key scopes of RPCs, read from the options of the protos.

The gateway builds /api/v1 from them, and the SDK its requests. What a rule means: google/api/http.proto. Of its path
syntax the protos use plain variables, `{id}` and `{candidate.model}`, each of which stands for one segment.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.api import annotations_pb2
from google.api.http_pb2 import HttpRule

from ratchet.common.v1 import access_pb2

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor

_VARIABLE = re.compile(r"{([\w.]+)}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to call an RPC over HTTP."""

    verb: str
    """In capitals: "GET"."""
    path: str
    """Such as "/api/v1/models/{model}/versions/{number}"; a variable is a field's path in the request message."""
    body: str
    """"*": the body is the request message without the path's fields. "": no body, the other fields are the query.
    A field's name: the body is this field, the other fields are the query."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The fields that the path holds, in its order."""
        return tuple(_VARIABLE.findall(self.path))


def rules(method: "MethodDescriptor") -> tuple[Rule, ...]:
    """The HTTP rule of an RPC, then its additional bindings; empty for an RPC that HTTP does not offer."""
    options = method.GetOptions()
    if not options.HasExtension(annotations_pb2.http):
        return ()
    main = options.Extensions[annotations_pb2.http]
    return tuple(_rule(rule) for rule in (main, *main.additional_bindings))


def required_scope(method: "MethodDescriptor") -> access_pb2.Scope.ValueType:
    """The scope that a key needs to call an RPC at the gateway, by its own option or by that of its service."""
    if own := method.GetOptions().Extensions[access_pb2.required_scope]:
        return own
    change = method.containing_service.GetOptions().Extensions[access_pb2.change_scope]
    is_read = change and any(rule.verb == "GET" for rule in rules(method))
    return access_pb2.SCOPE_READ if is_read else change or access_pb2.SCOPE_ADMIN


def _rule(rule: HttpRule) -> Rule:
    verb = rule.WhichOneof("pattern")
    if verb is None or verb == "custom":
        raise ValueError(f"an HTTP rule needs one of get, put, post, delete and patch: {rule}")
    return Rule(verb.upper(), getattr(rule, verb), rule.body)
