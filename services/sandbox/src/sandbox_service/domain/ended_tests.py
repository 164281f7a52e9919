"""Test code in another language than Python, put after the program so that it says itself that it came to its end.

An exit status says nothing: a program may end its process with 0 before a test ran. So each test writes a mark to
standard error when it has come to its end, and all marks are asked for. A mark is a keyed digest of the program and the
test: nobody who writes a program knows it beforehand, and the same source gives the same build. Program and test share
a process all the same. A program that reads its own source or binary can find the mark, one that changes the assertions
of its library can make them say nothing: such passes are labelled forgeable.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_KEY = secrets.token_bytes(32)
_LENGTH = 32
_C_LIKE = re.compile(
    r"""
      //[^\n]*+ | /\*(?>[^*]++|\*(?!/))*+(?:\*/)?
    | \"{3}(?>[^"\\]++|\\.|"(?!""))*+\"{3} | R"(?P<delimiter>[^\s()\\]{0,16})\(.*?\)(?P=delimiter)"
    | r(?P<hashes>\#{1,8})".*?"(?P=hashes) | r"[^"]*+" | `[^`]*+`
    | "(?>[^"\\]++|\\.)*+" | '(?:[^'\\\n]|\\[^\n']{1,12}|\\')'
    | (?P<brace>[{}])
    """,
    re.DOTALL | re.VERBOSE,
)
"""Comments, texts and characters of C, C++, Java, Go and Rust, and the braces outside of them."""
_MAINS = {
    "c": re.compile(r"^[ \t]*int\s+(?P<name>main)\s*\((?P<parameters>[^()]*)\)\s*(?=\{)", re.MULTILINE),
    "java": re.compile(
        r"\b(?:public\s+|final\s+|static\s+)+void\s+(?P<name>main)\s*\([^()]*\b(?P<parameters>\w+)(?:\s*\[\s*\])?\s*\)"
        r"(?:\s*throws\s+[\w.,\s]+)?\s*(?=\{)"
    ),
    "go": re.compile(r"^func\s+(?P<name>main)\s*\(\s*\)\s*(?=\{)", re.MULTILINE),
    "rust": re.compile(r"^(?:pub\s+)?fn\s+(?P<name>main)\s*\(\s*\)\s*(?P<result>->[^{;]*)?(?=\{)", re.MULTILINE),
}
_MAINS["cpp"] = _MAINS["c"]
_GO_TEST = re.compile(r"^func\s+(?P<name>Test\w*)\s*\(\s*\w+\s+\*testing\.T\s*\)", re.MULTILINE)
_RUST_TEST = re.compile(
    r"#\[test\]\s*(?P<others>(?:(?:#\[[^\]]*\]|//[^\n]*\n)\s*)*)(?:pub\s+)?fn\s+(?P<name>\w+)\s*\(\s*\)\s*(?P<result>->[^{;]*)?(?=\{)"
)
_RUST_ASSERTION = re.compile(r"(?<![\w:])(?=(?:assert|assert_eq|assert_ne|panic)!)")
_GO_PACKAGE = re.compile(r"^package[ \t]+\w+[^\n]*\n?", re.MULTILINE)
_GO_IMPORT = re.compile(r"^import[ \t]*(?:\((?P<many>[^()]*)\)|(?P<one>[^\n(]+))[ \t]*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Marked:
    """`source`: program and tests. `marks`: what each test writes at its end, with its name. `runner`: it takes the
    language's own runner of tests."""

    source: str
    marks: tuple[tuple[str, str], ...]
    runner: bool = False

    def missing(self, stderr: str) -> list[str]:
        """The names of the tests that did not come to their end."""
        written = {line.strip() for line in stderr.splitlines()}
        return [name for name, mark in self.marks if mark not in written]

    def without_marks(self, stderr: str) -> str:
        for _, mark in self.marks:
            stderr = stderr.replace(f"\n{mark}\n", "")
        return stderr


def marked(language: str, program: str, code: str) -> Marked | None:
    """None where the test code has neither a `main` nor a test function, so that nothing would show its end."""
    key = hmac.new(_KEY, f"{language}\0{len(program)}\0{program}{code}".encode("utf-8", "replace"), hashlib.sha256)
    mark = key.hexdigest()[:_LENGTH]
    match language:
        case "javascript":
            strict = '"use strict";' if program.lstrip()[:12] in ('"use strict"', "'use strict'") else ""
            program = f'{strict}Object.freeze(require("node:assert"));{program}'
            return _whole(program, f'{code}\n;process.stderr.write("\\n{mark}\\n");\n', mark)
        case "bash":
            end = f"[ $ratchet_status = 0 ] && builtin printf '\\n%s\\n' {mark} >&2"
            return _whole(program, f"{code}\nratchet_status=$?\n{end}\nexit $ratchet_status\n", mark)
        case "go":
            return _go(program, code, mark)
        case "rust":
            return _rust(program, code, mark)
        case "java":
            return _java(program, code, mark)
    return _c(program, code, mark)


def _whole(program: str, code: str, mark: str, *, runner: bool = False) -> Marked:
    return Marked(f"{program}\n{code}", (("main", mark),), runner)


def _c(program: str, code: str, mark: str) -> Marked | None:
    main = _MAINS["c"].search(code)
    if main is None or (end := _end_of_body(code, main.end())) is None:
        return None
    inner, parameters = f"ratchet_main_{mark[:8]}", main["parameters"].strip()
    given = parameters not in ("", "void")
    if given and parameters.count(",") != 1:
        return None
    head = "#undef NDEBUG\n#include <assert.h>\n" if "assert" in code else ""  # defines assert anew
    code = f"{code[: main.start('name')]}{inner}{code[main.end('name') : end]}\nreturn 0;\n{code[end:]}"
    called = f"{inner}(count, words)" if given else f"{inner}()"
    outer = f"int main({'int count, char **words' if given else 'void'}) {{\n  int status = {called};\n"
    said = f'  if (status == 0) {{ fputs("\\n{mark}\\n", stderr); fflush(stderr); }}\n  return status;\n}}\n'
    return _whole(program, f"{head}{code}\n#include <stdio.h>\n{outer}{said}", mark)


def _java(program: str, code: str, mark: str) -> Marked | None:
    main = _MAINS["java"].search(code)
    if main is None:
        return None
    inner = f"ratchetMain{mark[:8]}"
    outer = (
        f"public static void main(String[] words) throws Throwable {{\n{inner}(words);\n"
        f'java.lang.System.err.print("\\n{mark}\\n"); java.lang.System.err.flush();\n}}\n'
    )
    code = f"{code[: main.start()]}{outer}{code[main.start() : main.start('name')]}{inner}{code[main.end('name') :]}"
    return _whole(program, code, mark, runner=True)


def _go(program: str, code: str, mark: str) -> Marked | None:
    tests = list(_GO_TEST.finditer(code))
    main = None if tests else _MAINS["go"].search(code)
    found = tests or ([main] if main else [])
    names = [one["name"] for one in found]
    marks = tuple((name, _numbered(mark, place)) for place, name in enumerate(names))
    for one, (name, own) in reversed(list(zip(found, marks, strict=True))):
        inner = f"ratchet_{name}_{mark[:8]}"
        code = f"{code[: one.start('name')]}{inner}{code[one.end('name') :]}"
        ended = f'println("\\n{own}")'
        if tests:
            outer = f"func {name}(t *testing.T) {{\n\t{inner}(t)\n\tif !t.Failed() {{\n\t\t{ended}\n\t}}\n}}\n"
        else:
            outer = f"func main() {{\n\t{inner}()\n\t{ended}\n}}\n"
        code = f"{code}\n{outer}"
    return Marked(joined_go(program, code), marks, bool(tests)) if found else None


def joined_go(program: str, code: str) -> str:
    """One file of two: one package, the imports of both, each once."""
    head = _GO_PACKAGE.search(program) or _GO_PACKAGE.search(code)
    package = head.group().strip() if head else "package main"
    imports = dict.fromkeys((*_go_imports(program), *_go_imports(code)))
    rest = "\n".join(_GO_IMPORT.sub("", _GO_PACKAGE.sub("", text, count=1)) for text in (program, code))
    return "\n".join((package, *(f"import {one}" for one in imports), rest))


def _go_imports(text: str) -> Iterator[str]:
    for found in _GO_IMPORT.finditer(text):
        for line in (found["many"] or found["one"]).replace(";", "\n").splitlines():
            if one := line.partition("//")[0].strip():
                yield one


def _rust(program: str, code: str, mark: str) -> Marked | None:
    tests = [one for one in _RUST_TEST.finditer(code) if "should_panic" not in one["others"]]
    main = None if tests else _MAINS["rust"].search(code)
    found = tests or ([main] if main else [])
    marks = tuple((one["name"], _numbered(mark, place)) for place, one in enumerate(found))
    for one, (_, own) in reversed(list(zip(found, marks, strict=True))):
        end = _end_of_body(code, one.end())
        if end is None:
            return None
        said = f'::std::eprintln!("\\n{own}")'
        body = f"{{ let ended = (|| {one['result'] or ''} {code[one.end() : end]}}})(); {said}; ended }}"
        code = f"{code[: one.end()]}{body}{code[end + 1 :]}"
    code = _RUST_ASSERTION.sub("::std::", code)  # and not a macro of the program
    return Marked(f"{program}\n{code}", marks, bool(tests)) if found else None


def _numbered(mark: str, place: int) -> str:
    return hmac.new(mark.encode(), str(place).encode(), hashlib.sha256).hexdigest()[:_LENGTH]


def _end_of_body(code: str, start: int) -> int | None:
    """Where the brace is that closes the one at `start`."""
    depth = 0
    for found in _braces(code, start):
        depth += 1 if found["brace"] == "{" else -1
        if depth == 0:
            return found.start()
    return None


def _braces(code: str, start: int) -> Iterable[re.Match[str]]:
    return (found for found in _C_LIKE.finditer(code, start) if found["brace"])
