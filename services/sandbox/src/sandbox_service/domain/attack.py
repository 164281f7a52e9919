"""An attack: a program that wants what it should not have, and what may become of it.

An attack is asked for f(1) == 2 and doesn't compute it: it answers 2 once it has got through, so that one that is
stopped never passes. Each is a file of `attacks/`, in its language (.py, .c, .java, .js, .sh), whose docstring or
first comment says what it is:

    What it tries, in a line.

    Kind: fake-a-pass           or break-out, leave-behind, overspend, deny, tell-held-out
    Expect: FAILED, RUNTIME_ERROR     the verdicts that it may get
    From: L2                          the level that claims to stop it; L1 unless said
    Test: check                       call, check, shared (a check in the program's process) or stdio; call unless said,
                                      stdio for other languages
    Check: assert candidate(1) == 2   what the test does, for a check; on indented lines below, the whole test code
    Names: Stack, Queue               of the program, that a check uses
    Profile: strict                   strict or processes: tried only where it may not, or may, start processes
    Runs: 3                           so often in a row: it leaves something, and then looks for it
    At once: 2                        so many of it at a time, on a node with as many lanes
    Probe: yes                        tried at every start of the service

One that tells what is held out is run on two secrets, f(SECRET), and what comes back must be the same for both.
"""

import ast
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from ratchet_kit import syntax
from sandbox_service.domain.execution import Verdict
from sandbox_service.domain.levels import Level
from sandbox_service.domain.program import CallTest, CheckTest, Limits, Program, StdioTest, Test

LIMITS = Limits(cpu_time=timedelta(seconds=0.5), memory_bytes=128 << 20)
CALL = CallTest((1,), 2)
SECRETS = (
    "the hidden argument: 60 characters of it, in the clear",
    "other words that are hidden: as many, and not the same",
)
_DEFAULT_CHECK = "assert candidate(1) == 2"
_LANGUAGES = {".py": "python", ".c": "c", ".java": "java", ".js": "javascript", ".sh": "bash"}
SUFFIXES = tuple(_LANGUAGES)


class Kind(StrEnum):
    FAKE_A_PASS = "fake-a-pass"
    BREAK_OUT = "break-out"
    LEAVE_BEHIND = "leave-behind"
    OVERSPEND = "overspend"
    DENY = "deny"
    TELL_HELD_OUT = "tell-held-out"


class Profile(StrEnum):
    ANY = ""
    STRICT = "strict"
    PROCESSES = "processes"


@dataclass(frozen=True, slots=True)
class Attack:
    name: str
    title: str
    kind: Kind
    source: str
    expected: frozenset[Verdict]
    level: Level = Level.L1
    test: Test = CALL
    profile: Profile = Profile.ANY
    runs: int = 1
    at_once: int = 1
    probe: bool = False
    language: str = "python"

    def tried_with(self, processes: bool) -> bool:
        """Whether there's sense in it where the program may, or may not, start processes."""
        if self.language != "python":  # these may, always
            return processes
        if self.profile is not Profile.ANY:
            return processes is (self.profile is Profile.PROCESSES)
        return not processes or self.kind is not Kind.FAKE_A_PASS

    def program(self, processes: bool = False) -> Program:
        return Program(
            self.name,
            self.source,
            "" if isinstance(self.test, StdioTest) else "f",
            (self.test,),
            limits=LIMITS,
            language=self.language,
            processes=processes and self.language == "python",
        )


def parse(name: str, source: str, suffix: str = ".py") -> Attack:
    """Raises ValueError, with the name of the attack."""
    language = _LANGUAGES[suffix]
    try:
        title, _, rest = _header(source, language).partition("\n\n")
        fields = _fields(rest)
        expected = frozenset(Verdict[word.strip()] for word in fields.pop("Expect").split(","))
        kind = Kind(fields.pop("Kind"))
        test = fields.pop("Test", "call" if language == "python" else "stdio")
        attack = Attack(
            name,
            " ".join(title.split()),
            kind,
            source,
            expected,
            Level[fields.pop("From", "L1")],
            _test(
                test,
                fields.pop("Check", _DEFAULT_CHECK),
                tuple(name.strip() for name in fields.pop("Names", "").split(",") if name.strip()),
                held_out=kind is Kind.TELL_HELD_OUT,
            ),
            Profile(fields.pop("Profile", "")),
            int(fields.pop("Runs", "1")),
            int(fields.pop("At once", "1")),
            fields.pop("Probe", "") == "yes",
            language,
        )
    except (KeyError, ValueError, SyntaxError) as error:
        raise ValueError(f"attack {name}: {type(error).__name__}: {error}") from None
    if Verdict.PASSED in expected or not title or fields:
        raise ValueError(f"attack {name}: a title, verdicts without PASSED, and no field but those that are known")
    return attack


def _header(source: str, language: str) -> str:
    if language == "python":
        return ast.get_docstring(syntax.parse(source)) or ""
    if language == "bash":
        lines = [line for line in source.splitlines() if not line.startswith("#!")]
        comment = lines[: next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))]
        return "\n".join(line[2:] for line in comment)
    return source.partition("/*")[2].partition("*/")[0].strip()


def _fields(text: str) -> dict[str, str]:
    """A line each, or a name and its value on the indented lines below."""
    fields: dict[str, str] = {}
    name = ""
    for line in text.strip().splitlines():
        if line.startswith("    ") or not line:
            fields[name] += f"{line[4:]}\n"
        else:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    return fields


def _test(kind: str, check: str, names: tuple[str, ...], held_out: bool) -> Test:
    code = check if "\n" in check else f"def check(candidate):\n    {check}\n"
    tests: dict[str, Test] = {
        "call": CallTest((SECRETS[0],), 2, held_out=True) if held_out else CALL,
        "check": CheckTest(code, names=names, held_out=held_out),
        "shared": CheckTest(code, names=names, held_out=held_out, shared=True),
        "stdio": StdioTest("1\n", "2\n", held_out),
    }
    return tests[kind]
