"""Files of YAML with the fields of a message: see fields.py."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from google.protobuf.message import Message

from ratchet.trainer.v1 import trainer_pb2
from ratchet_workflows.errors import UsageError
from ratchet_workflows.notation.fields import Given, Source, below

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


class YamlFile(Source):
    """A file with fields. Raises UsageError when it cannot be read, is not valid YAML, or says something twice."""

    def __init__(self, file: Path) -> None:
        self._file, self.folder = file, file.parent
        self._lines: dict[str, int] = {}
        self._values = 0
        try:
            text = file.read_text(encoding="utf-8")
            self._find_lines(yaml.compose(text, yaml.SafeLoader), "")
            self._data = yaml.safe_load(text)
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror or error}.") from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            problem = " ".join(str(error).split())
            raise UsageError(f"{file} is not valid YAML: {problem[:300]}.") from error

    def _find_lines(self, node: Any, path: str) -> None:
        self._values += 1
        if self._values > MAX_VALUES:  # aliases of aliases: a few lines hold billions
            raise UsageError(f"{self._file} holds more than {MAX_VALUES} values.")
        if isinstance(node, yaml.SequenceNode):
            for place, one in enumerate(node.value):
                self._lines[f"{path}[{place}]"] = one.start_mark.line + 1
                self._find_lines(one, f"{path}[{place}]")
        elif isinstance(node, yaml.MappingNode):
            for key, one in node.value:
                name, line = below(path, key.value), key.start_mark.line + 1
                is_new = name not in self._lines
                self._lines.setdefault(name, line)
                if not is_new:
                    raise UsageError(f"{self._file}:{line}: {name} occurs a second time.")
                self._find_lines(one, name)

    def fields(self) -> Mapping[Any, Any]:
        """The mapping at the top."""
        if not isinstance(self._data, Mapping):
            raise self.wrong("", "must be fields with values (name: value)")
        return self._data

    def has(self, path: str) -> bool:
        return path in self._lines

    def place(self, path: str) -> str:
        """The file and the line of the field, or of the nearest that it is in."""
        while path and path not in self._lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return f"{self._file}:{self._lines[path]}" if path else f"{self._file}"


def source_of(plan: Path | Mapping[str, Any]) -> Source:
    """The fields of a YAML file, or of a mapping with the same names. Raises UsageError, as YamlFile does."""
    return YamlFile(plan) if isinstance(plan, Path) else Given(plan)
