"""Faults and habits of a chat template, found by rendering as transformers does
(utils/chat_template_utils.py). In a process of its own, with bounds: a template is a program of its author's, who may
be anybody that can make a run. `python -m ratchet_problems.templates` is that process."""

import json
import resource
import string
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock, Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

_TEXT = f"x-1 <b> {string.punctuation}\n    indented\ta  b é 日本"
_QUESTION, _ANSWER, _REPLY, _SYSTEM = (
    f"{word} {_TEXT} end of {word}" for word in ("questionx", "answerx", "replyx", "systemx")
)
_THOUGHTS = "<think>\nthoughtsx\n</think>\n\n"
_SECONDS = 5
"""Processor time."""
_BYTES = 1 << 30
_SHOWN = 6
"""Characters on each side of a change."""

Chat = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Template:
    """Findings on a chat template, each as it goes on after "its chat template "; empty: not."""

    fault: str = ""
    """Why no problem can be put to a model by it."""
    system_fault: str = ""
    """Why no message of the system can be put before a problem."""
    turns_fault: str = ""
    """Why no reply can be put between answers."""
    changes: str = ""
    """To a problem: alike in training, evaluation and serving."""
    turns_changes: str = ""
    """To an earlier answer, so that one that is rendered anew is not as it was sampled."""


def examined(source: str, tokens: Mapping[str, str]) -> Template:
    """`tokens`: the texts of special tokens by name, `eos_token` and such. One that takes too long, or too much memory,
    has that fault."""
    try:
        return _apart(source, tuple(tokens.items()))
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return Template(fault=f"takes more than {_SECONDS} s, or {_BYTES >> 30} GiB of memory, to put a few messages")


@lru_cache(maxsize=256)
def _apart(source: str, tokens: tuple[tuple[str, str], ...]) -> Template:
    found = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps([source, dict(tokens)]).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=12 * _SECONDS,
        check=True,
    )
    return Template(**json.loads(found.stdout))


def rendered(source: str, tokens: Mapping[str, str]) -> Template:
    """As `examined`, in this process and without bounds. Never raises."""
    try:
        render = _compiled(source, tokens)
        put = render([_user(_QUESTION)], True)
    except Exception as error:  # noqa: BLE001 (a template is a program of its author's)
        return Template(fault=f"raises an error{_line(error)}: {_sentence(error)}")
    if "questionx" not in put:
        return Template(fault="does not write what the user says")
    changes = "" if _QUESTION in put else f"changes what the user says: {_change(put, _QUESTION)}"
    if (times := put.count("end of questionx")) > 1:
        changes = f"writes what the user says {times} times"
    system_fault = _system_fault(render)
    try:
        whole = render([_user(_QUESTION), _assistant(_ANSWER), _user(_REPLY)], True)
    except Exception as error:  # noqa: BLE001
        return Template(changes=changes, system_fault=system_fault, turns_fault=f"raises an error: {_sentence(error)}")
    return Template(
        changes=changes,
        system_fault=system_fault,
        turns_fault=_turns_fault(whole),
        turns_changes=_turns_changes(render, put, whole),
    )


def _system_fault(render: Callable[[Chat, bool], str]) -> str:
    try:
        put = render([{"role": "system", "content": _SYSTEM}, _user(_QUESTION)], True)
    except Exception as error:  # noqa: BLE001 (Gemma's refuses one)
        return f"raises an error for a message of the system: {_sentence(error)}"
    if (times := put.count("end of systemx")) != 1:
        return f"writes a message of the system {times} times"
    return "" if "questionx" in put else "does not write what the user says after a message of the system"


def _turns_fault(whole: str) -> str:
    """`whole`: a question, an answer and a reply."""
    if whole.count("end of answerx") != 1 or whole.count("answerx ") != 1:
        times = whole.count("end of answerx")
        return f"writes an earlier answer {times} times" if times != 1 else "changes an earlier answer"
    after = whole.partition("end of answerx")[2]
    if after.count(_REPLY) != 1:
        word = "end of replyx"
        return f"changes a reply: {_change(after, _REPLY)}" if word in after else "does not write a reply"
    return ""


def _turns_changes(render: Callable[[Chat, bool], str], put: str, whole: str) -> str:
    if not whole.startswith(put + _ANSWER):
        return "writes an earlier answer otherwise than it was sampled"
    try:
        thought = render([_user(_QUESTION), _assistant(_THOUGHTS + _ANSWER), _user(_REPLY)], True)
    except Exception as error:  # noqa: BLE001
        return f"raises an error for an earlier answer with <think>: {_sentence(error)}"
    return "" if "thoughtsx" in thought else "leaves out what an earlier answer has between <think> and </think>"


def _compiled(source: str, tokens: Mapping[str, str]) -> Callable[[Chat, bool], str]:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: datetime.now().astimezone().strftime(form)
    template = environment.from_string(source)
    given = {**tokens, "tools": None, "documents": None}
    return lambda chat, more: template.render(messages=chat, add_generation_prompt=more, **given)


class _Generation(Extension):
    """The tag `generation`, which marks what an assistant says."""

    tags = {"generation"}  # noqa: RUF012 (as jinja2 declares it)

    def parse(self, parser: Parser) -> Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def _raise(message: str) -> None:
    raise jinja2.exceptions.TemplateError(message)


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def _change(written: str, text: str) -> str:
    """The first, where it writes how the text begins."""
    found = written[written.find(text.split()[0]) :]
    place = next((place for place, pair in enumerate(zip(found, text, strict=False)) if pair[0] != pair[1]), len(text))
    shown = slice(max(0, place - _SHOWN), place + _SHOWN)
    return f"it writes {found[shown]!r} for {text[shown]!r}"


def _line(error: Exception) -> str:
    """The template's line, where it is known: jinja2 puts its lines into the traceback."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f" in line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == "<template>"), None)
    return f" in line {line}" if line else ""


def _sentence(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    print(json.dumps(asdict(rendered(*json.load(sys.stdin)))))
