"""What OpenAPI says of errors: the bodies that `errors` writes."""

from typing import Any

from ratchet_sessions.doors.errors import ANTHROPIC_PREFIX, OPENAI_PREFIX

TEXT = {"type": "string"}
TEXT_OR_NONE = {"type": ["string", "null"]}
CODE = TEXT | {"description": "gRPC's name of it."}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


COMPONENTS: dict[str, Any] = {
    "Error": _object(
        ["error"],
        error=_object(
            ["code", "message"],
            code=CODE,
            message=TEXT,
            violations={
                "type": "array",
                "items": _object(["field", "description"], field=TEXT, description=TEXT),
                "description": "Every field at fault.",
            },
        ),
    ),
    "OpenAIError": _object(
        ["error"],
        error=_object(
            ["message", "type", "param", "code"], message=TEXT, type=TEXT, param=TEXT_OR_NONE, code=TEXT_OR_NONE
        ),
    ),
    "AnthropicError": _object(
        ["type", "error"], type={"const": "error"}, error=_object(["type", "message"], type=TEXT, message=TEXT)
    ),
}


def describe(schema: dict[str, Any]) -> None:
    """Adds to each operation of an OpenAPI what it answers when something is wrong, in place of FastAPI's own."""
    for path, operations in schema["paths"].items():
        name = "OpenAIError" if path.startswith(OPENAI_PREFIX) else "Error"
        if path.startswith(ANTHROPIC_PREFIX):
            name = "AnthropicError"
        body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = {"description": "An error.", "content": body}
    components = schema["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        components.pop(unused, None)
    components.update(COMPONENTS)
