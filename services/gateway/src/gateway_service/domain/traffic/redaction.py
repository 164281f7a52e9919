"""What is taken out of texts before they are written."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from gateway_service.domain.traffic.left_out import LeftOut, left_out
from gateway_service.domain.traffic.material import Material
from gateway_service.domain.traffic.record import CompletionRecord
from ratchet_kit.errors import Internal
from ratchet_kit.logs import get_logger

log = get_logger(__name__)

Redact: TypeAlias = Callable[[str], str]
"""A text without what must not be kept. It may raise: then the text is not kept."""


class Redaction:
    """Runs the steps in a thread of its own: texts may be long, and requests go on meanwhile."""

    def __init__(self, steps: Sequence[Redact]) -> None:
        self._steps = steps

    async def records(self, records: Sequence[CompletionRecord]) -> Sequence[CompletionRecord]:
        """The records, their material redacted. Where a step fails, a record is kept without its texts, and that is
        logged and counted."""
        if all(record.material is None or record.material.is_redacted for record in records):
            return records
        return await asyncio.to_thread(lambda: [self._record(record) for record in records])

    async def text(self, text: str) -> str:
        """Raises Internal where a step fails."""
        try:
            return await asyncio.to_thread(self._text, text)
        except Exception as error:
            raise Internal(f"a redaction failed with {type(error).__name__}") from error

    def _record(self, record: CompletionRecord) -> CompletionRecord:
        if record.material is None or record.material.is_redacted:
            return record
        return replace(record, material=self._material(record.id, record.material))

    def _material(self, completion_id: str, material: Material) -> Material | None:
        try:
            return replace(material.changed(self._text), is_redacted=True)
        except Exception as error:  # noqa: BLE001 (operators write these functions)
            # not what it says: that may quote the text
            log.error("traffic.not_redacted", completion_id=completion_id, reason=type(error).__name__)
            left_out(LeftOut.REDACTION)
            return None

    def _text(self, text: str) -> str:
        for step in self._steps:
            text = step(text)
        if not isinstance(text, str):
            raise TypeError("a redaction gave no text")
        text.encode()  # half of a surrogate pair is no text: nothing could give it back
        return text
