"""Problems with tests, or with a right answer: the type, the generator, the named sets and the JSONL loader."""

from ratchet_problems.examination import examine, faults_of, notices
from ratchet_problems.fingerprint import fingerprint, taught, tests_fingerprint
from ratchet_problems.messages import Message, ToolCall
from ratchet_problems.problem import (
    MOST_TEXT_BYTES,
    AnswerTest,
    CallTest,
    CheckTest,
    InvalidProblem,
    Problem,
    StdioTest,
    TestCase,
    data_digest,
)
from ratchet_problems.sets import NAMES, UnknownProblemSet, load

__all__ = [
    "MOST_TEXT_BYTES",
    "NAMES",
    "AnswerTest",
    "CallTest",
    "CheckTest",
    "InvalidProblem",
    "Message",
    "Problem",
    "StdioTest",
    "TestCase",
    "ToolCall",
    "UnknownProblemSet",
    "data_digest",
    "examine",
    "faults_of",
    "fingerprint",
    "load",
    "notices",
    "taught",
    "tests_fingerprint",
]
