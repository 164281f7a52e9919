"""Messages of the API from fields as people write them: by the API's names, in YAML's values. Every field is checked,
and what is wrong is said by its place and name.

A model is "starter", "starter@2", "starter:champion" or a folder; a problem set its name; an enum its name in lower
case; an environment "edits" or "edits=3"; a judge "facts@2" or "facts@2=0.5"; examples "mine@1/train" or
"mine@1/train=3"; a plug-in "sampler:easy_first"; a duration "30s", "5m", "1h", "7d" or a number of seconds; the
`program` of a reward of one's own may be a file (*.py), and so may a `chat_template` (*.jinja).
"""

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from ratchet.common.v1 import environment_pb2, model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import rewards
from ratchet_workflows.errors import Together, UsageError
from ratchet_workflows.notation.references import model_ref
from ratchet_workflows.notation.suites import entry

M = TypeVar("M", bound=Message)

OUTPUT_ONLY = {"digest"}
EXAMPLES = "examples"
TEMPLATE = "chat_template"
"""A field whose text may be a file."""
OF_ALL = ("system", TEMPLATE)
"""Fields of a plan, beside its sections: of its runs and of its evaluations."""
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_KINDS: dict[int, tuple[Any, str]] = {
    FieldDescriptor.CPPTYPE_STRING: (str, "a text"),
    FieldDescriptor.CPPTYPE_BOOL: (bool, "true or false"),
    FieldDescriptor.CPPTYPE_INT32: (int, "a whole number"),
    FieldDescriptor.CPPTYPE_INT64: (int, "a whole number"),
    FieldDescriptor.CPPTYPE_DOUBLE: ((int, float), "a number"),
}


class Fields(ABC):
    """Where fields stand: a file, an option. `folder`: what their files are named from; None: they name none, being of
    another machine."""

    folder: Path | None

    def resolved(self, name: str, value: object) -> None:  # noqa: B027
        """Called with what a name of this machine stands for: a file's content, a folder's path."""

    @abstractmethod
    def place(self, path: str) -> str:
        """Where a field stands, for people."""

    def wrong(self, path: str, description: str) -> UsageError:
        """The error to raise: `description` goes on after the field's path: "must be a number"."""
        end = "" if description.endswith("?") else "."
        return UsageError(f"{self.place(path)}: {path or 'the file'} {description}{end}")

    def unknown(self, path: str, name: object, known: Collection[str]) -> UsageError:
        """The error to raise for a name that is not a field."""
        near = difflib.get_close_matches(str(name), known, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return self.wrong(below(path, name), f"is not a field; {hint}")

    def whole_number(self, value: object, path: str, at_least: int, at_most: int | None = None) -> int:
        """The value of a field that is the file's own, and no message's."""
        number = _number(value) if isinstance(value, str) else value  # YAML takes 1e6 for a text
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if not isinstance(number, int) or isinstance(number, bool):
            raise self.wrong(path, f"must be a whole number, not {value!r}")
        if number < at_least or (at_most is not None and number > at_most):
            raise self.wrong(path, f"must be {at_least} or more{'' if at_most is None else f', at most {at_most}'}")
        return number

    def fill(self, message: M, data: object, path: str, without: Collection[str] = ()) -> M:
        """The message, with the fields that stand at `path`. `without`: those that it must not have."""
        if not isinstance(data, Mapping):
            raise self.wrong(path, "must be fields with values (name: value)")
        fields = message.DESCRIPTOR.fields_by_name
        known = [name for name in fields if name not in OUTPUT_ONLY and name not in without]
        together = Together()
        for name, value in data.items():
            with together.one():
                if name not in known:
                    raise self.unknown(path, name, known)
                if value is None:
                    raise self.wrong(below(path, name), "has no value")
                self._set(message, fields[name], value, below(path, name))
        together.raise_if_any()
        return message

    def _set(self, message: Message, field: Any, value: Any, path: str) -> None:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            if not isinstance(value, Mapping):
                raise self.wrong(path, "must be names with values (name: value)")
            entries = getattr(message, field.name)
            for key, one in value.items():
                entries[str(key)] = self._scalar(field.message_type.fields_by_name["value"], one, below(path, key))
        elif field.is_repeated:
            if not isinstance(value, list):
                raise self.wrong(path, "must be a list")
            for place, one in enumerate(value):
                where = f"{path}[{place}]"
                if field.message_type is not None:
                    self._message(getattr(message, field.name).add(), one, where)
                else:
                    getattr(message, field.name).append(self._scalar(field, one, where))
        elif field.message_type is not None:
            self._message(getattr(message, field.name), value, path)
        else:
            self._put(message, field, self._scalar(field, value, path), path)

    def _message(self, made: Any, value: Any, path: str) -> None:
        made.SetInParent()
        if isinstance(value, str) and isinstance(made, model_pb2.ModelRef):
            try:
                made.CopyFrom(model_ref(value, here=self.folder is not None))
            except UsageError as error:
                raise self.wrong(path, f"is wrong: {str(error).rstrip('.')}") from error
            if made.uri:
                self.resolved(value, made.uri)
        elif isinstance(value, str) and path.endswith(EXAMPLES):
            try:
                made.CopyFrom(examples(value) or made)
            except UsageError as error:
                raise self.wrong(path, "must be a set, or a set and a number, as mine@1/train=3") from error
        elif isinstance(value, str) and isinstance(made, problem_pb2.ProblemSetRef):
            made.name = value
        elif isinstance(value, str) and isinstance(made, eval_pb2.SuiteEntry | trainer_pb2.ValidationSet):
            made.MergeFromString(entry(value).SerializeToString())  # a run's has the same fields
        elif isinstance(value, str) and isinstance(made, environment_pb2.EnvironmentSpec):
            try:
                made.CopyFrom(environment(value) or made)
            except UsageError as error:
                raise self.wrong(path, "must be a name, or a name and a number of answers, as edits=3") from error
        elif isinstance(value, str) and isinstance(made, eval_pb2.RewardJudge):
            try:
                made.CopyFrom(judge(value) or made)
            except UsageError as error:
                raise self.wrong(path, "must be a reward, or a reward and a score, as facts@2=0.5") from error
        elif isinstance(value, str) and isinstance(made, trainer_pb2.Plugin):
            kind, _, name = value.partition(":")
            self.fill(made, {"kind": kind, "name": name}, path)
        elif isinstance(made, Duration):
            made.FromTimedelta(self._duration(value, path))
        elif isinstance(value, str) and isinstance(made, trainer_pb2.RewardSpec):
            if ".py" in value:
                self._check_here(value, path)
            try:
                made.CopyFrom(rewards.reward(value))
            except (ValueError, OSError) as error:
                raise self.wrong(path, f"is not a reward: {error}") from error
            if any(one.program for one in made.components):
                self.resolved(value, MessageToDict(made, preserving_proto_field_name=True))
        else:
            self.fill(made, value, path)
            if isinstance(made, trainer_pb2.RewardComponent) and made.program.endswith(".py"):
                made.program = self._content(made.program, f"{path}.program")

    def _duration(self, value: object, path: str) -> timedelta:
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)", str(value))
        if not found or isinstance(value, bool):
            raise self.wrong(path, f"must be a time, as 30s, 5m, 1h, 7d; not {value!r}")
        return timedelta(seconds=float(found[1]) * SECONDS.get(found[2], 1))

    def _scalar(self, field: FieldDescriptor, value: Any, path: str) -> Any:
        if field.enum_type is not None:
            values = field.enum_type.values
            prefix = values[0].name.removesuffix("UNSPECIFIED")
            names = {one.name.removeprefix(prefix).lower(): one.number for one in values[1:]}
            if not isinstance(value, str) or value not in names:
                raise self.wrong(path, f"must be one of {', '.join(names)}; not {value!r}")
            return names[value]
        kind, said = _KINDS[field.cpp_type]
        if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE and isinstance(value, str):
            value = _number(value)  # YAML takes 1e-4 for a text
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(path, f"must be {said}, not {value!r}")
        return self._template(value, path) if field.name == TEMPLATE else value

    def _put(self, message: Message, field: FieldDescriptor, value: Any, path: str) -> None:
        try:
            setattr(message, field.name, value)
        except ValueError as error:
            raise self.wrong(path, f"cannot hold {value!r}: {error}") from error

    def _template(self, text: str, path: str) -> str:
        if not text.endswith(".jinja"):
            return text
        content = self._content(text, path)
        if not content.strip():
            raise self.wrong(path, f"is an empty file: {text}")
        return content

    def _content(self, name: str, path: str) -> str:
        folder = self._check_here(name, path)
        try:
            content = (folder / name).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise self.wrong(path, f"cannot be read: {error}") from error
        self.resolved(name, content)
        return content

    def _check_here(self, name: str, path: str) -> Path:
        if self.folder is None:
            raise self.wrong(path, f"names a file, {name[:80]!r}, which is not here: write its content")
        return self.folder


class Source(Fields):
    """Fields that stand together: a file, a mapping."""

    @abstractmethod
    def fields(self) -> Mapping[Any, Any]:
        """The fields at the top. Raises UsageError for anything else than fields."""

    def has(self, path: str) -> bool:
        """True where a field stands there."""
        return False

    def put_into_all(self, *specs: trainer_pb2.RunSpec | eval_pb2.EvaluationSpec) -> None:
        """Puts the plan's system message and chat template into the specs that name none. Raises UsageError for what is
        no text, or a file that is not there."""
        for name in OF_ALL:
            if name not in self.fields():
                continue
            said = self.fields()[name]
            if not isinstance(said, str) or not said.strip():
                raise self.wrong(name, f"must be a text, not {said!r}")
            text = self._template(said, name) if name == TEMPLATE else said
            for spec in specs:
                setattr(spec, name, getattr(spec, name) or text)


def environment(text: str) -> environment_pb2.EnvironmentSpec | None:
    """The spec that NAME or NAME=TURNS says; None for an empty text. Raises UsageError."""
    name, equals, turns = text.partition("=")
    if equals and not turns.isdigit():
        raise UsageError(f"{text}: '{turns}' is not a number of answers.")
    return environment_pb2.EnvironmentSpec(name=name, max_turns=int(turns) if equals else None) if text else None


def examples(text: str) -> problem_pb2.ProblemSetRef | None:
    """The examples that SET or SET=NUMBER says; None for an empty text. Raises UsageError."""
    name, equals, number = text.partition("=")
    if equals and not number.isdigit():
        raise UsageError(f"{text}: '{number}' is not a number of examples.")
    return problem_pb2.ProblemSetRef(name=name, limit=int(number) if equals else None) if text else None


def judge(text: str) -> eval_pb2.RewardJudge | None:
    """The judge that REWARD or REWARD=SCORE says; None for an empty text. Raises UsageError."""
    reward, equals, score = text.partition("=")
    if not text:
        return None
    try:
        return eval_pb2.RewardJudge(reward=reward, passing_score=float(score) if equals else None)
    except ValueError as error:
        raise UsageError(f"{text}: '{score}' is not a number.") from error


def _number(text: str) -> float | str:
    """The text itself, where it is no number."""
    try:
        return float(text)
    except ValueError:
        return text


def below(path: str, name: object) -> str:
    """The path of a field in another."""
    return f"{path}.{name}" if path else str(name)
