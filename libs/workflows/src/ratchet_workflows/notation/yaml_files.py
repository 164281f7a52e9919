"""Files of YAML with the fields of a message: see fields.py."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from google.protobuf.message import Message

from ratchet.trainer.v1 import trainer_pb2
from ratchet_workflows.errors import UsageError
from ratchet_workflows.notation.fields import Source, below

M = TypeVar("M", bound=Message)

MAX_VALUES = 10_000


def run_spec(file: Path) -> trainer_pb2.RunSpec:
    """Raises UsageError for a file that cannot be read, and for what is not a field of a run or no value of one."""
    return _whole(file, trainer_pb2.RunSpec())


def reward_spec(file: Path) -> trainer_pb2.RewardSpec:
    """Raises UsageError like `run_spec`."""
    return _whole(file, trainer_pb2.RewardSpec())


def _whole(file: Path, message: M) -> M:
    source = YamlFile(file)
    return source.fill(message, source.fields(), "")


class YamlText(Source):
    """Fields in a text. Raises UsageError when it is not valid YAML, or says something twice."""

    folder: Path | None = None

    def __init__(self, name: str, text: str) -> None:
        """`name`: of the text, for people."""
        self._name, self._text = name, text.removeprefix("\ufeff")
        self._lines: dict[str, int] = {}
        self._scalars: dict[int, yaml.ScalarNode] = {}
        """By where they begin."""
        self._values = 0
        try:
            self._find_lines(yaml.compose(self._text, yaml.SafeLoader), "")
            self._data = yaml.safe_load(self._text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            problem = " ".join(str(error).split())
            raise UsageError(f"{name} is not valid YAML: {problem[:300]}.") from error

    def _find_lines(self, node: Any, path: str) -> None:
        self._values += 1
        if self._values > MAX_VALUES:  # aliases of aliases: a few lines hold billions
            raise UsageError(f"{self._name} holds more than {MAX_VALUES} values.")
        if isinstance(node, yaml.ScalarNode):
            self._scalars[node.start_mark.index] = node
        elif isinstance(node, yaml.SequenceNode):
            for place, one in enumerate(node.value):
                self._lines[f"{path}[{place}]"] = one.start_mark.line + 1
                self._find_lines(one, f"{path}[{place}]")
        elif isinstance(node, yaml.MappingNode):
            for key, one in node.value:
                name, line = below(path, key.value), key.start_mark.line + 1
                is_new = name not in self._lines
                self._lines.setdefault(name, line)
                if not is_new:
                    raise UsageError(f"{self._name}:{line}: {name} occurs a second time.")
                self._find_lines(one, name)

    def fields(self) -> Mapping[Any, Any]:
        """The mapping at the top."""
        if not isinstance(self._data, Mapping):
            raise self.wrong("", "must be fields with values (name: value)")
        return self._data

    def has(self, path: str) -> bool:
        return path in self._lines

    def place(self, path: str) -> str:
        """The name and the line of the field, or of the nearest that it is in."""
        while path and path not in self._lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return f"{self._name}:{self._lines[path]}" if path else self._name


class YamlFile(YamlText):
    """A file with fields. Raises UsageError when it cannot be read, too."""

    def __init__(self, file: Path) -> None:
        self.folder = file.parent
        self._resolved: dict[str, object] = {}
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror or error}.") from error
        except ValueError as error:
            raise UsageError(f"{file} is not valid YAML: {error}.") from error
        super().__init__(str(file), text)

    def resolved(self, name: str, value: object) -> None:
        self._resolved[name] = value

    def portable(self) -> str:
        """The text as it says the same on any machine: with the content of files, and whole paths. Each value stays on
        its line. Asks for a plan that was read from it."""
        text = self._text
        for start, node in sorted(self._scalars.items(), reverse=True):
            if node.value in self._resolved:
                value = json.dumps(self._resolved[node.value], ensure_ascii=False)
                text = text[:start] + value + text[node.end_mark.index :]
        return text
