"""Messages of the API as YAML: fields by the API's names, values as people write them. Every field is checked.

A model is "starter", "starter@2", "starter:champion" or a folder; a problem set its name; an enum its name in lower
case; the `program` of a reward of one's own may be a file, beside this one.
"""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_cli.commands.references import model_ref
from ratchet_cli.terminal.errors import CommandError
from ratchet_client import rewards

M = TypeVar("M", bound=Message)

OUTPUT_ONLY = {"digest"}
_KINDS: dict[int, tuple[Any, str]] = {
    FieldDescriptor.CPPTYPE_STRING: (str, "a text"),
    FieldDescriptor.CPPTYPE_BOOL: (bool, "true or false"),
    FieldDescriptor.CPPTYPE_INT32: (int, "a whole number"),
    FieldDescriptor.CPPTYPE_INT64: (int, "a whole number"),
    FieldDescriptor.CPPTYPE_DOUBLE: ((int, float), "a number"),
}


def run_spec(file: Path) -> trainer_pb2.RunSpec:
    """Raises CommandError for a file that cannot be read, and for what is no field of a run or no value of one."""
    return _read(file, trainer_pb2.RunSpec())


def reward_spec(file: Path) -> trainer_pb2.RewardSpec:
    """Raises CommandError like `run_spec`."""
    return _read(file, trainer_pb2.RewardSpec())


def _read(file: Path, message: M) -> M:
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror or error}.", code=2) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise CommandError(f"{file} is no YAML: {problem[:300]}.", code=2) from error
    _Reader(file).fill(message, data, "")
    return message


class _Reader:
    def __init__(self, file: Path) -> None:
        self._file = file

    def fill(self, message: Message, data: object, path: str) -> None:
        if not isinstance(data, Mapping):
            raise self._wrong(path or "the file", "must be fields with values (name: value)")
        fields = message.DESCRIPTOR.fields_by_name
        known = [name for name in fields if name not in OUTPUT_ONLY]
        for name, value in data.items():
            if name not in known:
                near = difflib.get_close_matches(str(name), known, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                raise self._wrong(_below(path, name), f"is no field; {hint}")
            if value is None:
                raise self._wrong(_below(path, name), "has no value")
            self._set(message, fields[name], value, _below(path, name))

    def _set(self, message: Message, field: Any, value: Any, path: str) -> None:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            if not isinstance(value, Mapping):
                raise self._wrong(path, "must be names with values (name: value)")
            entries = getattr(message, field.name)
            for key, one in value.items():
                entries[str(key)] = self._scalar(field.message_type.fields_by_name["value"], one, _below(path, key))
        elif field.is_repeated:
            if not isinstance(value, list):
                raise self._wrong(path, "must be a list")
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
            made.CopyFrom(model_ref(value))
        elif isinstance(value, str) and isinstance(made, problem_pb2.ProblemSetRef):
            made.name = value
        elif isinstance(value, str) and isinstance(made, trainer_pb2.RewardSpec):
            try:
                made.CopyFrom(rewards.reward(value))
            except (ValueError, OSError) as error:
                raise self._wrong(path, f"is no reward: {error}") from error
        else:
            self.fill(made, value, path)
            if isinstance(made, trainer_pb2.RewardComponent) and made.program.endswith(".py"):
                made.program = self._program(self._file.parent / made.program, path)

    def _scalar(self, field: FieldDescriptor, value: Any, path: str) -> Any:
        if field.enum_type is not None:
            values = field.enum_type.values
            prefix = values[0].name.removesuffix("UNSPECIFIED")
            names = {one.name.removeprefix(prefix).lower(): one.number for one in values[1:]}
            if not isinstance(value, str) or value not in names:
                raise self._wrong(path, f"must be one of {', '.join(names)}; not {value!r}")
            return names[value]
        kind, said = _KINDS[field.cpp_type]
        if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE and isinstance(value, str):
            value = _number(value)  # YAML takes 1e-4 for a text
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self._wrong(path, f"must be {said}, not {value!r}")
        return value

    def _put(self, message: Message, field: FieldDescriptor, value: Any, path: str) -> None:
        try:
            setattr(message, field.name, value)
        except ValueError as error:
            raise self._wrong(path, f"cannot hold {value!r}: {error}") from error

    def _program(self, file: Path, path: str) -> str:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise self._wrong(f"{path}.program", f"cannot be read: {error}") from error

    def _wrong(self, path: str, description: str) -> CommandError:
        return CommandError(f"{self._file}: {path} {description}.", code=2)


def _number(text: str) -> float | str:
    """The text itself, where it is none."""
    try:
        return float(text)
    except ValueError:
        return text


def _below(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)
