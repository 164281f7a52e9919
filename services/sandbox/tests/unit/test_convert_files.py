"""Languages, runtimes and files of a program, to the domain and back."""

import pytest

from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit.errors import InvalidArgument
from sandbox_service import convert
from sandbox_service.domain.capabilities import Capabilities, Runtime
from sandbox_service.domain.program import File, Limits

BOUNDS = convert.Bounds(Limits(), 1000)


def faults(*names: str, fetch: tuple[str, ...] = ()) -> dict[str, str]:
    message = pb.Program(files=[pb.File(name=name) for name in names], fetch_files=fetch)
    with pytest.raises(InvalidArgument) as refused:
        convert.program_from_proto(message, BOUNDS)
    return {violation.field: violation.description for violation in refused.value.violations}


def test_what_surrounds_a_program() -> None:
    files = [pb.File(name="data/in.csv", content=b"\x00\xff"), pb.File(name="a b.txt")]
    message = pb.Program(language="cpp", runtime="numpy", processes=True, files=files, fetch_files=["out.txt", "d/e"])
    program = convert.program_from_proto(message, BOUNDS)
    assert (program.language, program.runtime, program.processes) == ("cpp", "numpy", True)
    assert program.files == (File("data/in.csv", b"\x00\xff"), File("a b.txt", b""))
    assert program.fetch_files == ("out.txt", "d/e")


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "./a", "a\0b", "a" * 256, "/".join(["a" * 200] * 6), "é" * 128],
)
def test_names_that_lead_elsewhere_or_nowhere(name: str) -> None:
    assert list(faults(name)) == ["program.files[0].name"]
    assert list(faults(fetch=("fine", name))) == ["program.fetch_files[1]"]


@pytest.mark.parametrize("names", [("a", "a"), ("a", "a/b"), ("a/b/c", "a/b")])
def test_names_that_exclude_each_other(names: tuple[str, str]) -> None:
    assert set(faults(*names)) <= {"program.files[0].name", "program.files[1].name"}


def test_files_have_bounds() -> None:
    assert "has 257," in faults(*(str(i) for i in range(257)))["program.files"]
    assert "has 257," in faults(fetch=tuple(str(i) for i in range(257)))["program.fetch_files"]
    large = pb.Program(files=[pb.File(name=str(i), content=bytes(9 << 20)) for i in range(2)])
    with pytest.raises(InvalidArgument, match=r"program\.files has 18874368 bytes in all"):
        convert.program_from_proto(large, BOUNDS)


def test_folders_have_a_bound() -> None:
    deep = ["/".join([str(i), *["d"] * 490, "x"]) for i in range(3)]
    assert "has 1473 folders" in faults(*deep)["program.files"]
    convert.program_from_proto(pb.Program(files=[pb.File(name=name) for name in deep[:2]]), BOUNDS)


def test_capabilities() -> None:
    offered = Capabilities(
        ("seccomp",),
        "3.11.7",
        2,
        runtimes=(Runtime("numpy", "python", "3.11.7", {"numpy": "2.4.6"}, frozenset({"numpy"})),),
        missing_languages={"go": "install golang"},
        processes=True,
    )
    message = convert.capabilities_to_proto(offered, Limits())
    assert message.runtimes[0] == pb.Runtime(
        name="numpy", language="python", version="3.11.7", packages={"numpy": "2.4.6"}
    )
    assert dict(message.missing_languages) == {"go": "install golang"}
    assert message.processes
