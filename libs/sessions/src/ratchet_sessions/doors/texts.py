"""Texts in requests."""

import json
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Discriminator
from pydantic_core import PydanticCustomError, PydanticSerializationError, to_json

from ratchet_kit.text import check_encodable, clip


def _of_texts(schema: dict[str, Any]) -> dict[str, Any]:
    check_encodable(json.dumps(schema, ensure_ascii=False, allow_nan=False))  # 1e999 is read as infinity
    try:
        to_json(schema)  # an answer may bring it back
    except PydanticSerializationError as error:
        raise ValueError("is nested too deeply") from error
    return schema


def _text_or_list(value: Any) -> str | None:
    return A_TEXT if isinstance(value, str) else A_LIST if isinstance(value, list) else None


def text_only(*kinds: str) -> BeforeValidator:
    """Refuses a part of a content that has another `type`: an image, a sound, a file."""

    def check(part: Any) -> Any:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind not in kinds:
            named = {"kind": clip(kind, MOST_BYTES)}  # which a client sent, and may be anything
            raise PydanticCustomError("text_only", "the models here take text only, no {kind}", named)
        return part

    return BeforeValidator(check)


def of_kind(kind: str, sentence: str) -> BeforeValidator:
    """Refuses with the sentence an object whose `type` is another."""

    def check(value: Any) -> Any:
        if isinstance(value, dict) and value.get("type", kind) != kind:
            raise PydanticCustomError("kind", "{sentence}", {"sentence": sentence})
        return value

    return BeforeValidator(check)


def read_by(read: Callable[[Any], str | None], wanted: str) -> Discriminator:
    """Tells the member of a union by the tag that `read` finds; without one it `must be` what is wanted."""
    return Discriminator(read, custom_error_type="kind", custom_error_message=f"must be {wanted}")


MOST_BYTES = 100
"""Length of a name in an error that a client chose."""
A_TEXT, A_LIST = "[text]", "[list]"
"""Tags of a union: errors name no field by a name with brackets."""
TEXT_OR_LIST = read_by(_text_or_list, "a text or a list")
Text = Annotated[str, AfterValidator(check_encodable)]
Schema = Annotated[dict[str, Any], AfterValidator(_of_texts)]
"""A JSON Schema, or another object."""
