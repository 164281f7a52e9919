"""The record of a study: what bases' names meant when it began, and how far it is.

Everything that a study creates has a request id made of its own id and of what it asks for. So a study that was killed
asks again, and is given what there is.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from google.protobuf.message import Message


@dataclass(frozen=True, slots=True)
class Record:
    key: str
    """The study's id."""
    bases: Mapping[str, str]
    """The meaning of bases' names when the study began, "starter" -> "starter@1": a champion may change meanwhile."""
    cells: tuple[Mapping[str, str], ...] = ()
    """The name, run and evaluation of each that was begun."""
    journal: tuple[Mapping[str, Any], ...] = ()
    """Optuna's, of a search."""
    results: Mapping[str, Any] = field(default_factory=dict)
    """`StudyResults`, without the points of curves."""

    def request_id(self, spec: Message, purpose: str) -> str:
        digest = hashlib.sha256(spec.SerializeToString(deterministic=True)).hexdigest()[:24]
        return f"{self.key}-{digest}-{purpose}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "Record":
        """Fields of a newer release are passed over."""
        return cls(**{one.name: values[one.name] for one in fields(cls) if one.name in values})
