"""One row of a benchmark's table, read with the field named in every fault."""

import contextlib
from collections.abc import Mapping
from typing import Any

from ratchet_kit import json_text
from ratchet_kit.errors import FieldViolation, InvalidArgument


class Row:
    """`path` names the row in faults. Objects may also be JSON in a text."""

    def __init__(self, data: Mapping[str, Any], path: str) -> None:
        self._data, self._path = data, path

    def __contains__(self, name: str) -> bool:
        return self._data.get(name) is not None

    def fault(self, name: str, description: str) -> InvalidArgument:
        field = f"{self._path}.{name}"
        return InvalidArgument(f"{field}: {description}", [FieldViolation(field, description)])

    def text(self, name: str, default: str | None = None) -> str:
        value = self._data.get(name, default)
        if not isinstance(value, str):
            raise self.fault(name, "a text is needed")
        return self._clean(name, value)

    def json_or_text(self, name: str) -> Any:
        value = self._data.get(name)
        if isinstance(value, str):
            with contextlib.suppress(json_text.NotJson):
                return json_text.read(value)
        return value

    def below(self, name: str, data: Mapping[str, Any]) -> "Row":
        return Row(data, f"{self._path}.{name}")

    def json(self, name: str) -> Any:
        value = self._data.get(name)
        if isinstance(value, str):
            try:
                return json_text.read(value)
            except json_text.NotJson as error:
                raise self.fault(name, f"is a text that holds no JSON: it {error}") from None
        return value

    def row(self, name: str) -> "Row":
        value = self.json(name)
        if not isinstance(value, dict):
            raise self.fault(name, "an object is needed")
        return Row(value, f"{self._path}.{name}")

    def rows(self, name: str) -> list["Row"]:
        value = self.json(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.fault(name, "a list of objects is needed")
        return [Row(item, f"{self._path}.{name}[{i}]") for i, item in enumerate(value)]

    def texts(self, name: str) -> list[str]:
        value = self.json(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fault(name, "a list of texts is needed")
        return [self._clean(name, item) for item in value]

    def _clean(self, name: str, value: str) -> str:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.fault(name, "is not Unicode text") from None
        return value
