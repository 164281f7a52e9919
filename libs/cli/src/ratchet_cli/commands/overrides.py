"""`--set KEY=VALUE`: a field of a run, on the command line. KEY is a field as a file of the run has it (`seed`,
`resources.device`); those of `hyperparameters` and `thresholds` also by their own names (`learning_rate`). VALUE is as
in the file; of a list, its elements with commas between them."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from ratchet.trainer.v1 import trainer_pb2
from ratchet_workflows.errors import UsageError
from ratchet_workflows.notation.fields import Fields

SHORT: Mapping[str, type[Message]] = {
    "hyperparameters": trainer_pb2.Hyperparameters,
    "thresholds": trainer_pb2.Thresholds,
}
"""Messages of a run whose fields may be said by their own names."""


class Override(Fields):
    """One of them. Raises UsageError for what is no KEY=VALUE."""

    def __init__(self, text: str) -> None:
        self._text, self.folder = text, Path()
        self.key, equals, self._value = text.partition("=")
        if not equals:
            raise UsageError(f"{self.place('')}: say its value, as in {self.place('')}=VALUE.")

    def place(self, path: str) -> str:
        return f"--set {self._text}"

    def apply(self, spec: trainer_pb2.RunSpec) -> None:
        """Raises UsageError for an unknown field, and for a value that it cannot hold."""
        names = list(self._names())
        message: Any = spec
        for name in names[:-1]:
            message = getattr(message, name)
        field = message.DESCRIPTOR.fields_by_name[names[-1]]
        message.ClearField(field.name)
        value = self._read(field)
        for name in reversed(names):
            value = {name: value}
        self.fill(spec, value, "")

    def _names(self) -> Iterator[str]:
        """The messages on the path to the field. Raises UsageError."""
        spec: Descriptor = trainer_pb2.RunSpec.DESCRIPTOR
        there: Descriptor | None = spec
        names = self.key.split(".")
        within = [name for name, message in SHORT.items() if names[0] in message.DESCRIPTOR.fields_by_name]
        for name in (*within, *names):
            fields = there.fields_by_name if there else {}
            if name not in fields:
                raise self._no_field(fields if len(names) > 1 else _all(spec))
            yield name
            there = None if fields[name].is_repeated else fields[name].message_type

    def _no_field(self, known: Any) -> UsageError:
        near = difflib.get_close_matches(self.key.rpartition(".")[2], known, 1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}."
        return UsageError(f"{self.place('')}: '{self.key}' is not a field of a run. {hint}")

    def _read(self, field: FieldDescriptor) -> Any:
        """Texts and names as they stand; of all else YAML's value."""
        is_text = field.cpp_type in (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_ENUM)
        flow = self._value[:1] in ("[", "{")
        if not field.is_repeated and (is_text or (field.message_type and not flow)):
            return self._value
        try:
            return yaml.safe_load(f"[{self._value}]" if field.is_repeated and not flow else self._value)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise UsageError(f"{self.place('')}: this is not a YAML value.") from error


def _all(spec: Descriptor) -> list[str]:
    return [*spec.fields_by_name, *(name for message in SHORT.values() for name in message.DESCRIPTOR.fields_by_name)]


def override(spec: trainer_pb2.RunSpec, texts: Sequence[str]) -> None:
    """Sets the fields that `texts` name. Raises UsageError, also for one that is there twice."""
    said = set[str]()
    for text in texts:
        one = Override(text)
        if one.key in said:
            raise UsageError(f"--set {text}: {one.key} has a value already: say it once.")
        said.add(one.key)
        one.apply(spec)
