"""Texts in requests."""

import json
from typing import Annotated, Any

from pydantic import AfterValidator


def _encodable(text: str) -> str:
    """JSON may hold half a surrogate pair, which is no text: nothing behind this door can be sent it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("must not hold an unpaired surrogate") from error
    return text


def _of_texts(schema: dict[str, Any]) -> dict[str, Any]:
    _encodable(json.dumps(schema, ensure_ascii=False))
    return schema


Text = Annotated[str, AfterValidator(_encodable)]
Schema = Annotated[dict[str, Any], AfterValidator(_of_texts)]
"""A JSON Schema."""
