"""Requests are read without holding up others: long test code is read elsewhere, once."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pytest

from ratchet.common.v1 import problem_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit.errors import InvalidArgument
from sandbox_service.convert import Bounds, programs_from_proto
from sandbox_service.domain.ports import Overrun
from sandbox_service.domain.program import CheckTest, Limits
from sandbox_service.unpacking import Unpacker

T = TypeVar("T")
BOUNDS = Bounds(Limits(timedelta(seconds=60), 4 << 30, 1 << 20), text_bytes=1 << 20)


class Elsewhere:
    def __init__(self) -> None:
        self.read = 0

    async def __call__(self, function: Callable[..., T], *arguments: object) -> T:
        self.read += 1
        await asyncio.sleep(0)
        return function(*arguments)


def long(last: str) -> str:
    return f"x = [{'1, ' * 12_000}]\n{last}\n"


def program(code: str) -> pb.Program:
    test = problem_pb2.Test(check=problem_pb2.CheckTest(code=code))
    return pb.Program(source="f = abs", entry_point="f", tests=[test])


async def test_long_test_code_is_read_elsewhere_once() -> None:
    aside = Elsewhere()
    unpack = Unpacker(aside)
    programs = [program(code) for code in (long("assert math.isclose(f(1), 1)"), long("assert f(2)"), "assert f(3)")]
    for _ in range(2):
        read = await unpack(100, programs_from_proto, [*programs, programs[0]], BOUNDS)
        tests = [test for one in read for test in one.tests if isinstance(test, CheckTest)]
        assert [test.modules for test in tests] == [("math",), (), (), ("math",)]
    assert aside.read == 2


async def test_what_is_wrong_with_it_is_said() -> None:
    unpack = Unpacker(Elsewhere())
    for _ in range(2):
        with pytest.raises(InvalidArgument) as error:
            await unpack(100, programs_from_proto, [program(long("f(3)")), program("f(3)")], BOUNDS)
        assert [one.field for one in error.value.violations] == [f"programs[{i}].tests[0].check.code" for i in (0, 1)]


async def test_what_takes_too_long_to_read_is_refused() -> None:
    async def overruns(function: Callable[..., T], *arguments: object) -> T:
        raise Overrun

    with pytest.raises(InvalidArgument, match="takes too long to read"):
        await Unpacker(overruns)(100, programs_from_proto, [program(long("assert f(4)"))], BOUNDS)
