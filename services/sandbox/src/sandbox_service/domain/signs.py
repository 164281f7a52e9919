"""Signs of cheating: what cheating programs do, and a few honest ones too. So they are reported, and never judged."""

import signal
from dataclasses import dataclass
from enum import StrEnum

from sandbox_service.domain.jobs import CheckVerdict, End, Report, Returned, Stage

_PLAIN = {kind.__name__ for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)}


class Sign(StrEnum):
    """The kinds of signs. The values are labels of the metric sandbox_signs."""

    UNASKED_BYTES = "unasked bytes"
    EARLY_EXIT = "early exit"
    FORBIDDEN_SYSTEM_CALL = "forbidden system call"
    DISGUISED_OBJECT = "disguised object"


@dataclass(frozen=True, slots=True)
class Sighting:
    """A sign that a program showed, with a sentence for people: it may quote what the program wrote."""

    sign: Sign
    text: str

    def __str__(self) -> str:
        return self.text


def unasked_bytes(text: str) -> Sighting:
    """`text`: where the bytes came, and how they begin."""
    return Sighting(Sign.UNASKED_BYTES, text)


def of(report: Report) -> tuple[Sighting, ...]:
    """The signs in a report of call or check tests."""
    seen = []
    unfinished = report.stage in (Stage.COMPILED, Stage.LOADED) and not report.error
    passed = report.tester is not None and report.tester.verdict is not CheckVerdict.GONE
    if report.end is End.EXITED and report.exit_status == 0 and unfinished and not passed:
        seen.append(Sighting(Sign.EARLY_EXIT, "ended its process with status 0 before the tests were done"))
    if report.exit_status == -signal.SIGSYS:
        seen.append(Sighting(Sign.FORBIDDEN_SYSTEM_CALL, "made a system call that the cage forbids"))
    named = {answer.opaque for answer in report.answers if isinstance(answer, Returned)} & _PLAIN
    seen += [
        Sighting(Sign.DISGUISED_OBJECT, f"answered with an object of its own type named {name!r}")
        for name in sorted(named)
    ]
    return tuple(seen)
