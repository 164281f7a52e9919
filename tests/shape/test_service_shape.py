"""Every service and library has the shape of docs/service-shape.md."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from . import rules
from .rules import Fault, Source

ROOT = Path(__file__).resolve().parents[2]
SERVICES = sorted(path.parent for path in ROOT.glob("services/*/pyproject.toml"))
LIBRARIES = sorted(path.parent for path in ROOT.glob("libs/*/pyproject.toml"))
GENERATED = ("libs/protos/src/ratchet/",)
DATA = ("sandbox_service/attacks/", "/migrations/")


def sources(part: Path) -> Iterator[Source]:
    for path in sorted((part / "src").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(GENERATED) and not any(data in name for data in DATA):
            yield Source.of(path.relative_to(ROOT), path.read_text())


def report(faults: list[Fault]) -> None:
    lines = [str(fault).replace(f"{ROOT}/", "") for fault in faults]
    assert not faults, f"{len(faults)} places do not have the shape:\n" + "\n".join(lines)


@pytest.mark.parametrize("part", [*SERVICES, *LIBRARIES], ids=lambda part: part.name)
def test_all_speak_one_dialect(part: Path) -> None:
    report([fault for source in sources(part) for rule in rules.DIALECT for fault in rule(source)])


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_a_service_has_its_rooms(service: Path) -> None:
    faults = [fault for source in sources(service) for rule in rules.SERVICE for fault in rule(source)]
    report([*faults, *rules.rooms(service), *rules.composition(service), *rules.tests_mirror_the_source(service)])


BROKEN: dict[rules.Rule, list[str]] = {
    rules.dataclasses_are_frozen_and_slotted: ["@dataclass(frozen=True)\nclass A: ...", "@dataclass\nclass A: ..."],
    rules.doubles_are_in_tests: [
        "class MemoryRunStore: ...",
        "class ScriptedEngine(Engine): ...",
        "class FakeClock: ...",
    ],
    rules.exceptions_are_errors: ["try: ...\nexcept KeyError as e: ..."],
    rules.log_events_are_dotted: [
        'log.info("run started")',
        'log.info("run.started", why="x")',
        'log.info("run.started", level="L1")',
        'log.info(f"a.{b}")',
    ],
    rules.nothing_private_is_used_elsewhere: ["other._name", "from eval_service.domain import _name"],
    rules.words_are_plain: ["told = 1", "def f(why): ...", "class Asked: ..."],
    rules.states_are_lower_case_texts: ["class State(Enum):\n  A = 'a'", "class State(StrEnum):\n  A = 'A'"],
    rules.times_end_in_time: ["@dataclass(frozen=True, slots=True)\nclass A:\n  ready_at: datetime | None = None"],
    rules.pages_are_pages: ["async def list(self, page_size, page_token): ..."],
    rules.converters_are_called_by_their_module: ["from eval_service.convert import run_to_proto"],
    rules.servicers_take_a_context: ["async def GetRun(self, request, context: Any): ..."],
    rules.only_main_builds: ["channel = client.channel('x')"],
}


@pytest.mark.parametrize("rule", [*rules.DIALECT, *rules.SERVICE], ids=lambda rule: rule.__name__)
def test_a_rule_finds_what_breaks_it(rule: rules.Rule) -> None:
    for text in BROKEN[rule]:
        assert list(rule(Source.of(Path("services/eval/src/eval_service/x.py"), text))), text
