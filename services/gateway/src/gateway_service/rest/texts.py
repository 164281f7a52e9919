"""Texts in requests."""

import json
from typing import Annotated, Any

from pydantic import AfterValidator

from ratchet_kit.text import check_encodable


def _of_texts(schema: dict[str, Any]) -> dict[str, Any]:
    check_encodable(json.dumps(schema, ensure_ascii=False))
    return schema


Text = Annotated[str, AfterValidator(check_encodable)]
Schema = Annotated[dict[str, Any], AfterValidator(_of_texts)]
"""A JSON Schema."""
