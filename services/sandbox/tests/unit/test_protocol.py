"""What a program may write on its result channel."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_service.adapters.lanes import protocol
from sandbox_service.domain.jobs import (
    CallJob,
    CheckJob,
    CheckVerdict,
    Oversized,
    Raised,
    Report,
    Returned,
    ScriptJob,
    Stage,
)
from sandbox_service.domain.levels import Level
from sandbox_service.domain.program import Limits

ASKED = protocol.request(CallJob("source", "f", ((1,),), Limits()), timedelta(1), timedelta(2), 0, 8192)
HEAD: dict[str, object] = {
    "end": "exited",
    "cut": False,
    "status": 0,
    "cpu": 0.1,
    "wall": 0.2,
    "max_rss": 1,
    "killed": False,
}


def read(text: str | bytes, end: str = "exited", tests: bytes = b"") -> Report:
    data = text.replace("N", ASKED.nonce).encode() if isinstance(text, str) else text
    blobs = [data, b"\xff", b"", tests]
    head = {**HEAD, "end": end, "blobs": [len(blob) for blob in blobs]}
    return protocol.report(ASKED, head, b"".join(blobs), "x", Level.L1)


def test_a_whole_story() -> None:
    loaded = '\n["N", "compiled"]\n["N", "loaded"]\n'
    told = read(
        loaded + '["N", "value", 0, {"t": [1]}]\n["N", "raised", 1, "E", "m", ["E", "Exception"]]\n["N", "end"]\n'
    )
    assert told.stage is Stage.ENDED
    assert told.answers == (Returned({"t": [1]}), Raised("E", "m", ("E", "Exception")))
    assert told.malformed == ""
    assert told.stdout == "\ufffd"


@pytest.mark.parametrize(
    "text",
    [
        "PASSED\n",
        "PASSED",
        '["N", "compiled"]',
        '["x", "compiled"]\n',
        '["N", "loaded"]\n',
        '["N", "passed"]\n',
        '["N", "value", 1, 2]\n',
        '["N", "value", 0, 2]\n["N", "value", 0, 2]\n',
        '["N", "value", 0, {"z": 1}]\n',
        '["N", "value", 0, [[[{"s": [{}]}]]]]\n',
        '["N", "value", 0, {"d": [[1]]}]\n',
        '["N", "value", 0, {"l": ["Decimal", "one"]}]\n',
        '["N", "value", 0, {"l": ["Fraction", 1, 0]}]\n',
        '["N", "value", 0, {"l": ["Counter", 1]}]\n',
        '["N", "value", 0, {"l": ["namedtuple", "P"]}]\n',
        "[" * 5000 + "\n",
        '["N", "value", true, 1]\n["N", "value", 1, 1]\n["N"]\n',
        '["N", "error", 1, 2]\n',
        '["N", "value", 0, ' + "9" * 5000 + "]\n",
        "null\n",
        "1\n",
    ],
)
def test_anything_else_is_tampering(text: str) -> None:
    assert read(text).malformed.startswith("unasked bytes on the result channel")


def test_a_job_that_was_cut_off_may_end_in_half_a_frame() -> None:
    told = read('["N", "compiled"]\n["N", "loaded"]\n["N", "val', end="cpu")
    assert (told.stage, told.malformed) == (Stage.LOADED, "")


def test_an_answer_beyond_its_limit_is_not_read() -> None:
    loaded = '["N", "compiled"]\n["N", "loaded"]\n'
    told = read(loaded + '["N", "value", 0, "' + "x" * 9000 + '"]\n["N", "value", 1, 5]\n["N", "end"]\n')
    assert told.answers[0] == Oversized(8192)
    assert len(told.answers) == 2
    assert told.malformed == ""
    assert read(loaded + '["N", "value", 1, "' + "x" * 9000 + '"]\n').malformed


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    read(data, tests=data)
    read(b'["' + ASKED.nonce.encode() + b'", ' + data + b"]\n")


def test_the_tester_is_believed_in_its_own_form_only() -> None:
    nonce = ASKED.tests_nonce.encode()
    passed = read("", tests=b'["' + nonce + b'", "passed"]\n').tester
    assert passed is not None
    assert passed.verdict is CheckVerdict.PASSED
    for forged in (b"PASSED", b'["passed"]', b'["x", "passed"]', b'["' + nonce + b'", "fine"]', b"\xff"):
        assert read("", tests=forged).tester is None


def test_tests_go_apart_from_the_program() -> None:
    """The keeper leaves both in the socket: each child reads its own, and only its own, by these lengths."""
    job = CheckJob("SOURCE", "f", "TESTS", True, Limits())
    asked = protocol.request(job, timedelta(1), timedelta(2), 0, 8192, b"COMPILED")
    before, _, after = asked.data.partition(b"SOURCE")
    program, mark, tests = after.partition(asked.tests_nonce.encode())
    for theirs in (b"TESTS", b"COMPILED"):
        assert theirs not in before + program
        assert theirs in tests
    assert mark
    assert b"SECRET" not in protocol.request(ScriptJob("s", "in", Limits()), timedelta(1), timedelta(2), 0, 8192).data
