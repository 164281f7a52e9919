"""The brake of CONTRIBUTING.md: commands, options, settings and RPCs are those of surface.txt, name by name."""

import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from ratchet_cli.main import app
from ratchet_kit.settings import PASSWORDS, SHARED, ServiceSettings

from .test_protos import NAMES, proto
from .test_service_shape import LIBRARIES, SERVICES

LIST = Path(__file__).with_name("surface.txt")
VARIABLE = re.compile(r'"(RATCHET_[A-Z_]*[A-Z])"')
NEW = (
    "is new. Remove it, or add this line to tests/shape/surface.txt, and say in the commit's message"
    ' who needs it and what it replaces (CONTRIBUTING.md, "A brake").'
)
GONE = "is gone. Delete this line of tests/shape/surface.txt."


def commands(command: Any, name: str) -> Iterator[str]:
    yield f"command {name}"
    for parameter in command.params:
        long = [option for option in parameter.opts if option.startswith("--")]
        yield f"option {name} {long[0]}" if long else f"argument {name} {parameter.name}"
    for word, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {word}")


def settings() -> Iterator[str]:
    """Those of one service, of every service, and the variables that are read elsewhere."""
    for service in SERVICES:
        own = importlib.import_module(f"{service.name}_service.settings").Settings
        yield from _fields(own, own.model_config["env_prefix"], ServiceSettings.model_fields)
    yield from _fields(ServiceSettings, "RATCHET_<SERVICE>_")
    yield from (f"setting {name}" for name in [*SHARED.values(), *PASSWORDS.values()])
    for part in [*SERVICES, *LIBRARIES]:
        for file in (part / "src").rglob("*.py"):
            if part.name != "testing":
                yield from (f"setting {name}" for name in VARIABLE.findall(file.read_text()))


def _fields(model: type[ServiceSettings], prefix: str, inherited: Iterable[str] = ()) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if is_dataclass(field.annotation):
            yield from (f"setting {prefix}{name.upper()}__{one.name.upper()}" for one in fields(field.annotation))
        elif name not in inherited and name not in SHARED:
            yield f"setting {prefix}{name.upper()}"


def rpcs() -> Iterator[str]:
    for name in NAMES:
        for service in proto(name).services_by_name.values():
            yield from (f"rpc {method.full_name}" for method in service.methods)


def faults(listed: list[str], found: Iterable[str]) -> list[str]:
    names = set(found)
    new, gone = sorted(names - set(listed)), [line for line in listed if line not in names]
    unsorted = ["surface.txt is not sorted, or has a line twice."] if listed != sorted(set(listed)) else []
    return [f"{line!r} {NEW}" for line in new] + [f"{line!r} {GONE}" for line in gone] + unsorted


def test_the_surface_is_the_one_that_is_listed() -> None:
    found = [*commands(typer.main.get_command(app), "ratchet"), *settings(), *rpcs()]
    wrong = faults(LIST.read_text().splitlines(), found)
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("listed", "found", "words"),
    [
        (["rpc a"], ["rpc a", "rpc b"], ["'rpc b' is new."]),
        (["rpc a", "rpc b"], ["rpc a"], ["'rpc b' is gone."]),
        (["rpc b", "rpc a"], ["rpc a", "rpc b"], ["surface.txt is not sorted"]),
    ],
)
def test_a_name_that_comes_or_goes_is_a_fault(listed: list[str], found: list[str], words: list[str]) -> None:
    assert [fault.startswith(word) for fault, word in zip(faults(listed, found), words, strict=True)] == [True]
