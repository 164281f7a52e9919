"""An episode as it is kept: what was said, how the command ended, which files it changed, and the verdict with its why.

kept = pack(to_json(record_of(task, episode)))      # bounded bytes
record = from_json(unpack(kept))
again = await judge(workspaces, task, work_of(task, record))
"""

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from difflib import unified_diff
from typing import Any

from ratchet_environments.folders.folder import TaskFolder
from ratchet_environments.folders.judging import Judged
from ratchet_environments.folders.tree import File
from ratchet_environments.folders.work import Work, mark_of, removed_by, untouched
from ratchet_environments.workspaces import Done
from ratchet_episodes.harness import Episode
from ratchet_sessions import Session
from ratchet_sessions import record as sessions

FORM = 1
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? ")
_EMPTY, _MODE = "empty", "its mode alone"
"""Notes of files whose content is known without a diff."""
MOST_BYTES = 4 << 20
"""Size of a packed record."""
_MOST_TEXT, _MOST_TOKENS = 32 << 20, 1 << 20
_MOST_OUTPUT, _MOST_MESSAGE = 4000, 2000
_MOST_CHANGES, _MOST_DIFF = 500, 256 << 10
_MOST_LINES, _MOST_FILE_LINES = 20_000, 4000
"""Lines that are compared, of all files and of one: the time for it grows faster than they do."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The command's end."""

    how: str
    """ "status 1", "the wall limit"."""
    stdout: str
    """Its end."""
    stderr: str
    cpu_seconds: float
    wall_seconds: float


@dataclass(frozen=True, slots=True)
class Change:
    """A file that the judge got otherwise than the task began with it."""

    path: str
    kind: str
    """ "added", "changed" or "removed"."""
    diff: str = ""
    """In the unified form; empty where `note` stands for it."""
    note: str = ""
    mode: int = 0o644
    """Mode of the file that the judge got: 0o755 where it may be run."""


@dataclass(frozen=True, slots=True)
class Record:
    task: str
    session: Session
    ended: Ended
    changes: tuple[Change, ...]
    verdict: Judged | None
    """None where a fault of the platform kept answers from the program."""
    left_out: tuple[str, ...] = ()
    """Parts that had no room: "tokens"."""


def record_of(task: TaskFolder, episode: Episode) -> Record:
    """Takes a while where many files changed."""
    changes = [] if episode.work.fault else list(_changes(task, episode.work))
    more = len(changes) - _MOST_CHANGES
    left_out = (f"{more} changed files",) if more > 0 else ()
    shown = _within(changes[:_MOST_CHANGES])
    return Record(task.name, episode.session, _ended(episode.done), tuple(shown), episode.judged, left_out)


def tool_errors(session: Session) -> int:
    """Results of tools that begin with "error:", as those of `tools` do where a call is wrong. The status of a command
    that fails is a result like others."""
    new = (message for messages in sessions.new_messages(session) for message in messages)
    return sum(one.role == "tool" and one.content[:6].lower() == "error:" for one in new)


def work_of(task: TaskFolder, record: Record) -> Work:
    """The files that the judge got, without empty folders: they can be judged again. Raises ValueError where the record
    has one in part, or the task began otherwise."""
    if any(one.endswith("changed files") for one in record.left_out):
        raise ValueError(f"{', '.join(record.left_out)} are left out of the record")
    files = _began(task)
    for change in record.changes:
        there = change.path in files
        before = files.pop(change.path, File())
        if change.kind == "removed":
            if task.has_image and not there:
                files[mark_of(change.path)] = File()
            continue
        if change.note not in ("", _EMPTY, _MODE):
            raise ValueError(f"{change.path} is not in the record: {change.note}")
        try:
            files[change.path] = File(_patched(before.content.decode(), change.diff).encode(), change.mode)
        except (IndexError, UnicodeDecodeError) as error:
            raise ValueError(f"{change.path} is not the one that the record begins with") from error
    return Work(files)


def _began(task: TaskFolder) -> dict[str, File]:
    """The task's files that an agent hands over."""
    others = untouched(task)
    return {path: file for path, file in task.environment.items() if path not in others}


def _patched(old: str, diff: str) -> str:
    """Raises IndexError where the diff is of another text."""
    lines, place, found = old.split("\n"), 0, list[str]()
    for line in diff.split("\n")[2:]:
        if hunk := _HUNK.match(line):
            start = int(hunk[1]) - (hunk[2] != "0")
            found += lines[place:start]
            place = start
            continue
        if line[:1] in (" ", "-"):
            if lines[place] != line[1:]:
                raise IndexError(place)
            place += 1
        found += [line[1:]] if line[:1] in (" ", "+") else []
    return "\n".join([*found, *lines[place:]])


def to_json(record: Record) -> dict[str, Any]:
    return {
        "form": FORM,
        "task": record.task,
        "session": sessions.to_json(record.session),
        "ended": asdict(record.ended),
        "changes": [asdict(change) for change in record.changes],
        "verdict": asdict(record.verdict) if record.verdict else None,
        "left_out": list(record.left_out),
    }


def from_json(kept: Mapping[str, Any]) -> Record:
    """Raises ValueError for something else."""
    try:
        if kept["form"] != FORM:
            raise ValueError(f"form {kept['form']} is not known")
        return Record(
            kept["task"],
            sessions.from_json(kept["session"]),
            Ended(**kept["ended"]),
            tuple(Change(**{**change, "mode": int(change["mode"])}) for change in kept["changes"]),
            Judged(**kept["verdict"]) if kept["verdict"] else None,
            tuple(kept["left_out"]),
        )
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"no record of an episode: {type(error).__name__} {error}") from error


def pack(kept: dict[str, Any], most: int = MOST_BYTES) -> bytes:
    """At most `most` bytes: tokens are left out first, then the ends of long messages, then all of them."""
    calls = kept["session"]["calls"]
    if sum(len(call["prompt_ids"]) + len(call["token_ids"]) for call in calls) > _MOST_TOKENS:
        kept = _less(kept, "tokens")
    packed = _packed(kept)
    for left_out in ("tokens", "ends of long messages", "messages"):
        if len(packed) > most and left_out not in kept["left_out"]:
            kept = _less(kept, left_out)
            packed = _packed(kept)
    return packed


def _packed(kept: dict[str, Any]) -> bytes:
    """As it is where it is too long to be compressed in a moment: it has no room then."""
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return zlib.compress(text) if len(text) <= _MOST_TEXT else text


def unpack(packed: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(packed))
    return found


def shown(packed: bytes, *, tokens: bool) -> dict[str, Any]:
    """A packed record as JSON, for who asks for it over an API. Takes a while with many tokens."""
    kept = unpack(packed)
    return kept if tokens else without_tokens(kept)


def without_tokens(kept: Mapping[str, Any]) -> dict[str, Any]:
    """For who wants to read what was said."""
    nothing = {"ids_kept": 0, "prompt_ids": [], "token_ids": [], "log_probs": []}
    session = kept["session"]
    return {**kept, "session": {**session, "calls": [{**call, **nothing} for call in session["calls"]]}}


def _less(kept: Mapping[str, Any], left_out: str) -> dict[str, Any]:
    session = kept["session"]
    match left_out:
        case "tokens":
            less = without_tokens(kept)["session"]
        case "messages":
            less = {"calls": [], "failed": []}
        case _:
            less = {name: [_clipped(one) for one in session[name]] for name in ("calls", "failed")}
    return {**kept, "session": less, "left_out": [*kept["left_out"], left_out]}


def _clipped(call: Mapping[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"answer": _clip(call["answer"])} if "answer" in call else {}
    answer |= {"reasoning": _end_cut(call["reasoning"])} if "reasoning" in call else {}
    return {**call, **answer, "messages": [_clip(message) for message in call["messages"]]}


def _clip(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = [{**call, "arguments": _end_cut(call["arguments"])} for call in message["tool_calls"]]
    return {**message, "content": _end_cut(message["content"]), "tool_calls": calls}


def _end_cut(text: str) -> str:
    return text if len(text) <= _MOST_MESSAGE else text[:_MOST_MESSAGE] + "..."


def _ended(done: Done) -> Ended:
    cpu, wall = (time.ToTimedelta().total_seconds() for time in (done.exit.cpu_time, done.exit.wall_time))
    return Ended(done.ending, _tail(done.stdout), _tail(done.stderr), cpu, wall)


def _tail(output: bytes) -> str:
    return output[-4 * _MOST_OUTPUT :].decode("utf-8", "replace")[-_MOST_OUTPUT:]


def _changes(task: TaskFolder, work: Work) -> Iterator[Change]:
    """By path. Files of the task that no agent hands over stay out: the judge has them as they were."""
    began = _began(task)
    left = _MOST_LINES
    gone = {removed_by(path) for path in work.files if task.has_image} - {""}
    for path in sorted(began.keys() | work.files.keys() | gone):
        before, after = began.get(path), work.files.get(path)
        if path in gone and before is None and after is None:
            yield Change(path, "removed", note="a file of the image")
        if before == after or (task.has_image and removed_by(path)):
            continue
        kind = "added" if before is None else "removed" if after is None else "changed"
        old, new = _text(before), _text(after)
        note = "" if old is not None and new is not None else _noted(after)
        if (shown := path.encode("utf-8", "replace").decode()) != path:
            path, note = shown, f"its name is no text; {_noted(after)}"
        lines = (old or "").count("\n") + (new or "").count("\n")
        if not note and (lines > left or lines > _MOST_FILE_LINES):
            note = f"too long to be compared: {_noted(after)}"
        mode = after.mode if after else 0o644
        if note:
            yield Change(path, kind, note=note, mode=mode)
            continue
        left -= lines
        name = path.replace("\n", "?")  # or it would be lines of the diff
        names = (f"a/{name}" if before else "/dev/null", f"b/{name}" if after else "/dev/null")
        diff = "\n".join(unified_diff((old or "").split("\n"), (new or "").split("\n"), *names, lineterm=""))
        yield Change(path, kind, diff, "" if diff else _EMPTY if before is None else _MODE, mode)


def _text(file: File | None) -> str | None:
    """None for what is no text."""
    if file is None:
        return ""
    if file.link or b"\0" in file.content:
        return None
    try:
        return file.content.decode()
    except UnicodeDecodeError:
        return None


def _noted(file: File | None) -> str:
    if file is None:
        return "it was no text"
    return f"a link to {file.link}" if file.link else f"{len(file.content)} bytes"


def _within(changes: list[Change]) -> Iterator[Change]:
    left = _MOST_DIFF
    for one in changes:
        if len(one.diff) > left:
            one = replace(one, diff="", note=f"no room for a diff of {len(one.diff)} letters")
        left -= len(one.diff)
        yield one
