"""Plain English: none of its faults where users read; in docstrings no more than docstring_faults.txt counts."""

from pathlib import Path

import pytest

from . import words
from .rules import Fault, Source
from .test_service_shape import LIBRARIES, ROOT, SERVICES, report, sources

NUMBERS = Path(__file__).with_name("docstring_faults.txt")
COUNTED = {part: int(number) for part, number in map(str.split, NUMBERS.read_text().splitlines())}
PARTS = [part.relative_to(ROOT).as_posix() for part in [*SERVICES, *LIBRARIES]]


def test_comments_of_protos_are_plain() -> None:
    protos = sorted(ROOT.glob("proto/ratchet/*/v1/*.proto"))
    report([fault for path in protos for fault in words.in_proto(path, path.read_text())])


def test_help_texts_are_plain() -> None:
    report([fault for source in sources(ROOT / "libs/cli") for fault in words.in_helps(source)])


@pytest.mark.parametrize("part", PARTS)
def test_faults_of_docstrings_only_become_fewer(part: str) -> None:
    faults = [fault for source in sources(ROOT / part) for fault in words.in_docstrings(source)]
    counted = COUNTED.get(part, 0)
    listed = "\n".join(map(str, faults))
    assert len(faults) <= counted, f"{part} has {len(faults)} faults, and at most {counted} are allowed:\n{listed}"
    assert len(faults) == counted, f"{part} has {len(faults)} faults left: lower its number {counted} in {NUMBERS.name}"


def test_every_number_is_of_a_part() -> None:
    assert set(COUNTED) <= set(PARTS)
    assert all(COUNTED.values()), "a part without faults needs no line"


@pytest.mark.parametrize(
    ("comment", "line", "fault"),
    [
        ("// Of the intervals.", 2, "'Of'"),
        ("// A name.\n  // That one is none.", 3, "'is none'"),
        ("// At most so\n  // many.", 2, "'so many'"),
        ("// Runs by itself.", 2, "'by itself'"),
    ],
)
def test_a_comment_of_a_proto_is_read(comment: str, line: int, fault: str) -> None:
    (found,) = words.in_proto(Path("a.proto"), f"message A {{\n  {comment}\n  int32 number = 1;\n}}\n")
    assert found.line == line
    assert fault in found.text


@pytest.mark.parametrize(
    "text",
    [
        'X = typer.Option(help="What it is.")',
        'X = typer.Option(help=f"At most so many {THINGS}.")',
        'app = typer.Typer(help="Those that run.")',
        '@app.command()\ndef run():\n    """What runs."""',
        'def run(id: Annotated[str, typer.Option()]):\n    """Whether it runs."""',
    ],
)
def test_a_help_text_is_read(text: str) -> None:
    assert len(list(words.in_helps(Source.of(Path("x.py"), text)))) == 1


def test_a_docstring_is_read() -> None:
    text = '"""What it does."""\n\nX = 1\n"""A value.\n\nBig, be it small."""\n\n\ndef f():\n    """Plain."""'
    found = list(words.in_docstrings(Source.of(Path("x.py"), text)))
    assert found == [
        Fault(Path("x.py"), 1, "begins with 'What': begin with the noun or the verb"),
        Fault(Path("x.py"), 6, "'be it': say it plainly"),
    ]
