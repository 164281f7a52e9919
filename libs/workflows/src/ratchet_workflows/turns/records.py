"""The record of a turn: the id of each stage as soon as it is known.

What a stage creates is created under a request id that is made of the workflow's id, so that nothing is lost or made
twice by who is killed before an id was saved.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any


class State(StrEnum):
    RUNNING = "running"
    RELEASED = "released"
    REFUSED = "refused"
    ROLLED_BACK = "rolled_back"


@dataclass(frozen=True, slots=True)
class Record:
    """One turn. Versions are numbers of `model`; what is not known yet is 0 or empty."""

    number: int
    """Which turn of the model it is."""
    model: str
    champion: int
    """The version to beat: the champion when the turn began, or when the gate was made."""
    base: int
    """The champion when the turn began."""
    pairs: str = ""
    """The data set of traffic that it learns from, such as "traffic-starter@3/train"."""
    run: str = ""
    candidate: int = 0
    evaluations: Mapping[str, str] = field(default_factory=dict)
    """Version -> its evaluation, "starter@2" -> "eval_..."."""
    gate: str = ""
    release: str = ""
    state: State = State.RUNNING
    sentence: str = ""
    """How it ended, and the reason."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "Record":
        """Fields of a newer release are passed over."""
        whole = {"number", "champion", "base", "candidate"}
        known = {one.name: values[one.name] for one in fields(cls) if one.name in values}
        numbers = {name: int(value) for name, value in known.items() if name in whole}
        return cls(**known | numbers | {"state": State(known.get("state", State.RUNNING))})
