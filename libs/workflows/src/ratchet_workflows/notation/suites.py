"""How people name what is measured: "humaneval+", or several sets with weights, "humaneval=0.4"."""

from collections.abc import Sequence
from typing import Any

from ratchet.common.v1 import problem_pb2
from ratchet.eval.v1 import eval_pb2 as pb


def sets_of(texts: Sequence[str], limit: int = 0) -> dict[str, Any]:
    """The fields of a spec: `problems` of one set, `suite` of several. `limit`: of each set; 0: all."""
    entries = [entry(text, limit) for text in texts]
    if len(entries) == 1 and not entries[0].HasField("weight"):
        return {"problems": entries[0].problems}
    return {"suite": entries}


def names_of(texts: Sequence[str]) -> list[str]:
    return [entry(text).problems.name for text in texts]


def entry(text: str, limit: int = 0) -> pb.SuiteEntry:
    """An entry of a suite, from "humaneval" or "humaneval=0.4"."""
    name, _, weight = text.rpartition("=")
    try:
        number = float(weight) if name else None
    except ValueError:  # a name may have the sign
        name, number = text, None
    return pb.SuiteEntry(problems=problem_pb2.ProblemSetRef(name=name or text, limit=limit or None), weight=number)
