"""Pairs of answers to one prompt, of which one is better, as JSONL: a pair a line, every fault with its line and field.

A line has `chosen` and `rejected`, and what they answer. That is one of

    {"prompt": [{"role": "user", "content": "..."}], "chosen": [{"role": "assistant", ...}], "rejected": [...]}
    {"prompt": "def add(a, b):\\n", "chosen": "    return a + b", "rejected": "    return a - b"}
    {"problem": "Write add(a, b), which ...", "chosen": "def add(a, b): ...", "rejected": "..."}

a conversation, a text that the answers go on with as it stands, or a problem's prompt, which is put to a model as those
of problem sets are. The first two are TRL's preference formats (https://huggingface.co/docs/trl/dataset_formats), which
the gateway's traffic is written in. So is TRL's implicit prompt: without one, `chosen` and `rejected` are conversations
that begin alike, and what they begin with is the prompt. A line may have an `id`, an `origin`, and scores, which are
not read.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from ratchet_problems import jsonl
from ratchet_problems.messages import Message
from ratchet_problems.problem import InvalidProblem, Problem, digest_of

FIELDS = ("id", "prompt", "problem", "chosen", "rejected", "origin")
_UNREAD = re.compile(r"(.+[_-])?(score|rating)s?([_-].+)?")
"""Columns of many preference sets, as `score_chosen`, of which DPO makes no use."""

PairForm = Literal["", "chat", "completion"]
"""How its prompt can be put to a model; empty: either way."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The kept traffic that a pair is made of, and whose it is: whoever is forgotten takes it along."""

    exchanges: tuple[str, ...]
    """Ids of completions."""
    units: tuple[str, ...]
    """Digests of their users, sessions and keys."""
    time: datetime
    """Start of the earliest."""


@dataclass(frozen=True, slots=True)
class Pair:
    """`messages`, `text` or `problem` is there, the other two are empty."""

    id: str
    chosen: str
    rejected: str
    messages: tuple[Message, ...] = ()
    text: str = ""
    problem: str = ""
    origin: Origin | None = None

    @property
    def digest(self) -> str:
        """Hex of its texts, whatever its id and origin."""
        record = asdict(self) | {"id": ""}
        del record["origin"]
        return hashlib.sha256(json.dumps(record, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    @property
    def form(self) -> PairForm:
        return "chat" if self.messages else "completion" if self.text else ""

    @property
    def as_problem(self) -> Problem:
        """The prompt that is answered, as a problem: by it a set of problems is known to hold it, too."""
        prompt = self.problem or self.text or self.messages[-1].content
        return Problem(self.id, prompt, (), references=(self.chosen,), conversation=self.messages[:-1])


def form_of(pairs: Sequence[Pair]) -> PairForm:
    """The one form that all of them have, or empty where each can be put either way."""
    return next((pair.form for pair in pairs if pair.form), "")


def pairs_digest(pairs: Iterable[Pair]) -> str:
    """`sha256:<hex>` of the pairs, whatever their order and their ids."""
    return digest_of(pair.digest for pair in pairs)


def read(path: str | Path, *, limit: int | None = None) -> tuple[Pair, ...]:
    """The pairs of a file in its order, all or the first `limit`; blank lines are skipped.

    Raises InvalidProblem: for the first line that is no pair, for one whose answers are the same, for a conversation in
    a file of texts, for a file that cannot be read or holds none.
    """
    path = Path(path)
    found: list[Pair] = []
    form: PairForm = ""
    for number, line in jsonl.numbered_lines(path):
        where = f"{path.name} line {number}"
        pair = read_record(jsonl.record(line, where), where, f"{path.stem}/{number}")
        form = common_form(form, pair, where)
        found.append(pair)
    if not found:
        raise InvalidProblem(path.name, "file", "holds no pairs")
    return tuple(found[:limit])


def common_form(form: PairForm, pair: Pair, where: str) -> PairForm:
    """The form of a pair and those before it. Raises InvalidProblem for a conversation among texts, and the reverse."""
    if pair.form and form and pair.form != form:
        kinds = {"chat": "a conversation", "completion": "a text"}
        reason = f"is {kinds[pair.form]}, and one before it {kinds[form]}: make two files of them"
        raise InvalidProblem(where, "prompt", reason)
    return form or pair.form


def read_record(record: object, where: str, default_id: str) -> Pair:
    """The pair of one record. Raises InvalidProblem."""
    if not isinstance(record, dict):
        raise InvalidProblem(where, "line", "must be a JSON object")
    if unknown := sorted(name for name in record.keys() - set(FIELDS) if not _UNREAD.fullmatch(name)):
        raise InvalidProblem(where, unknown[0], f"unknown field; known are {', '.join(sorted(FIELDS))}")
    if "prompt" in record and "problem" in record:
        raise InvalidProblem(where, "prompt", "a pair has a prompt or a problem, and not both")
    are_chats = all(isinstance(record.get(name), list) for name in ("chosen", "rejected"))
    is_copied = are_chats and isinstance(record.get("prompt"), str)
    if "problem" not in record and ("prompt" not in record or is_copied):
        record = _parted(record, where)
    id = jsonl.spoken(record.get("id", default_id), "id", where)
    origin = _origin(record["origin"], where) if "origin" in record else None
    chosen, rejected = (_answer(record, name, where) for name in ("chosen", "rejected"))
    if chosen == rejected:
        raise InvalidProblem(where, "rejected", "is the same as chosen: nothing can be learned from it")
    if "problem" in record:
        return Pair(id, chosen, rejected, problem=jsonl.spoken(record["problem"], "problem", where), origin=origin)
    prompt = record["prompt"]
    if isinstance(prompt, str):
        return Pair(id, chosen, rejected, text=jsonl.spoken(prompt, "prompt", where), origin=origin)
    messages = jsonl.messages(prompt, "prompt", where)
    if messages[-1].role == "assistant":
        raise InvalidProblem(where, "prompt", "ends with an answer: it belongs to chosen and rejected")
    return Pair(id, chosen, rejected, messages, origin=origin)


def _origin(value: object, where: str) -> Origin:
    """Raises InvalidProblem."""
    if not isinstance(value, dict) or value.keys() != {"exchanges", "units", "time"}:
        raise InvalidProblem(where, "origin", "must have exchanges, units and time, and nothing else")
    lists = [value["exchanges"], value["units"]]
    if not all(isinstance(one, list) and one and all(isinstance(it, str) for it in one) for one in lists):
        raise InvalidProblem(where, "origin", "must name exchanges and units")
    try:
        time = datetime.fromisoformat(value["time"])
    except (TypeError, ValueError):
        raise InvalidProblem(where, "origin.time", "must be a time, such as 2026-11-01T00:00:00+00:00") from None
    if time.tzinfo is None:
        raise InvalidProblem(where, "origin.time", "must name its time zone, such as +00:00")
    return Origin(tuple(lists[0]), tuple(lists[1]), time)


def _parted(record: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """A line without a prompt, or with its text beside whole conversations, as one that has the messages: what both
    begin with, up to their answers."""
    chosen, rejected = record.get("chosen"), record.get("rejected")
    if not (isinstance(chosen, list) and isinstance(rejected, list)):
        raise InvalidProblem(where, "prompt", "is missing: a pair has a prompt or a problem")
    if not chosen or chosen[:-1] != rejected[:-1]:
        reason = "is missing, and chosen and rejected are not alike up to their last message, the answer"
        raise InvalidProblem(where, "prompt", reason)
    if len(chosen) < 2:
        raise InvalidProblem(where, "prompt", "is missing: chosen and rejected have nothing but an answer")
    return {**record, "prompt": chosen[:-1], "chosen": chosen[-1:], "rejected": rejected[-1:]}


def _answer(record: Mapping[str, Any], name: str, where: str) -> str:
    """A text, or the one message of an assistant where the prompt is a conversation."""
    if name not in record:
        raise InvalidProblem(where, name, "is missing")
    value = record[name]
    if not isinstance(record.get("prompt"), list):
        return jsonl.spoken(value, name, where)
    messages = jsonl.messages(value, name, where)
    if len(messages) != 1 or messages[0].role != "assistant":
        raise InvalidProblem(where, name, "must be one message of the assistant")
    return messages[0].content
