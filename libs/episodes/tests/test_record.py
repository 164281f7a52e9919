"""The record of an episode: read again it is the same, and it never grows beyond its bounds."""

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ratchet.sandbox.v1 import workspace_pb2 as pb
from ratchet_environments.folders import folder
from ratchet_environments.folders.folder import TaskFolder
from ratchet_environments.folders.judging import Judged
from ratchet_environments.folders.tree import File
from ratchet_environments.folders.work import Work
from ratchet_environments.workspaces import Done
from ratchet_episodes import Episode, record
from ratchet_kit.times import duration_to_proto
from ratchet_policies import Completion, FinishReason
from ratchet_problems import Message
from ratchet_sessions import Question, Session

NOW = datetime(2026, 1, 1, tzinfo=UTC)
START = {"environment/app.py": "a = 1\nb = 2\n", "environment/old.txt": "old\n", "environment/other.txt": "kept\n"}


def task(start: Mapping[str, str] = START) -> TaskFolder:
    files = {
        "task.toml": 'artifacts = ["/app"]\n',
        "instruction.md": "Do it.",
        "tests/test.sh": "true",
        "environment/Dockerfile": "FROM python:3.11\nWORKDIR /app\nCOPY app.py old.txt /app/\nCOPY other.txt /data/\n",
    } | dict(start)
    return folder.interpret({path: File(text.encode()) for path, text in files.items()}, "a-task")


def said(session: Session, *messages: Message, answer: str = "I do.", tokens: int = 3) -> None:
    last = session.calls[-1] if session.calls else None
    past = (*last.question.messages, last.answer) if last else ()
    question = Question("m", (*past, *messages))
    origin = session.origin(question)
    begun = origin.begun.ids if origin.begun else ()
    completion = Completion(0, answer, FinishReason.STOP, tuple(range(tokens)), (-0.1234567890123,) * tokens)
    session.record(
        question, origin, Message("assistant", answer), completion, (*begun, 7), "sha256:p", NOW, NOW + timedelta(1)
    )


def episode(files: Mapping[str, File], session: Session | None = None, output: bytes = b"done\n") -> Episode:
    if session is None:
        session = Session()
        said(session, Message("user", "Do it."))
        said(session, Message("tool", "error: there is no tool x", tool_call_id="1"), Message("tool", "fine"))
    exit = pb.ExecExit(
        end=pb.ExecExit.END_EXITED, status=3, wall_time=duration_to_proto(timedelta(seconds=2)), cpu_time=None
    )
    judged = Judged(0.0, False, "reward 0", "1 failed")
    return Episode(
        session, Done(exit, output, b""), judged, Work({f"app/{name}": file for name, file in files.items()})
    )


def text(content: str, mode: int = 0o644) -> File:
    return File(content.encode(), mode)


AS_IT_WAS = {"app.py": text(START["environment/app.py"]), "old.txt": text("old\n")}


def test_it_has_what_was_said_and_done_and_the_verdict() -> None:
    files = {"app.py": text("a = 1\nb = 3\n"), "new.txt": text("new\n")}
    kept = record.record_of(task(), episode(files))
    assert [(one.path, one.kind) for one in kept.changes] == [
        ("app/app.py", "changed"),
        ("app/new.txt", "added"),
        ("app/old.txt", "removed"),
    ]
    assert "-b = 2\n+b = 3" in kept.changes[0].diff
    assert "+new" in kept.changes[1].diff
    assert "-old" in kept.changes[2].diff
    assert (kept.ended.how, kept.ended.stdout, kept.ended.wall_seconds) == ("status 3", "done\n", 2.0)
    assert kept.verdict == Judged(0.0, False, "reward 0", "1 failed")
    again = record.from_json(record.unpack(record.pack(record.to_json(kept))))
    assert again == kept
    assert list(again.session.paths()) == list(kept.session.paths())


def test_nothing_done_changes_nothing_and_what_is_no_text_is_named() -> None:
    assert record.record_of(task(), episode(AS_IT_WAS)).changes == ()
    files = AS_IT_WAS | {"app.py": text("a = 1\nb = 2\n", 0o755), "x": File(b"\0\1"), "z": File(link="app.py")}
    changes = record.record_of(task(), episode(files)).changes
    assert {one.path: one.note for one in changes} == {
        "app/app.py": "its mode alone",
        "app/x": "2 bytes",
        "app/z": "a link to app.py",
    }


def test_the_files_that_the_judge_got_are_rebuilt() -> None:
    chance = random.Random(3)
    for _ in range(200):
        lines = [chance.choice("abc ") * chance.randint(0, 3) for _ in range(chance.randint(0, 30))]
        start = {"environment/app.py": "\n".join(lines), "environment/old.txt": "old\n"}
        for _ in range(chance.randint(0, 5)):
            lines[(at := chance.randrange(len(lines) + 1)) : at + chance.randint(0, 2)] = chance.choices("xy@-+ ", k=2)
        files = {"app.py": text("\n".join(lines), chance.choice((0o644, 0o755))), "empty": text(""), "n": text("@@ -1")}
        found = episode(files)
        kept = json.loads(json.dumps(record.to_json(record.record_of(task(START | start), found))))
        assert record.work_of(task(START | start), record.from_json(kept)).files == found.work.files


def test_files_that_a_record_has_in_part_are_not_rebuilt() -> None:
    binary = record.record_of(task(), episode(AS_IT_WAS | {"x": File(b"\0")}))
    other = record.record_of(task(), episode(AS_IT_WAS | {"app.py": text("a = 1\nb = 3\n")}))
    many = record.record_of(task(), episode(AS_IT_WAS | {f"{place}": text("") for place in range(501)}))
    for kept, began in ((binary, START), (other, START | {"environment/app.py": "c = 1\n"}), (many, START)):
        with pytest.raises(ValueError, match=r"app/x|app/app.py|1 changed files"):
            record.work_of(task(began), kept)


@pytest.mark.parametrize("name", ["a\n+evil\nb", "\n@@ -1 +1 @@", "a\rb"])
def test_no_name_of_a_file_is_part_of_what_is_in_it(name: str) -> None:
    played = episode(AS_IT_WAS | {name: text("good\n")})
    kept = record.from_json(record.unpack(record.pack(record.to_json(record.record_of(task(), played)))))
    assert record.work_of(task(), kept).files == played.work.files


def test_a_name_that_is_no_text_is_told_and_not_rebuilt() -> None:
    played = episode(AS_IT_WAS | {"bad\udcff": text("good\n")})
    kept = record.from_json(record.unpack(record.pack(record.to_json(record.record_of(task(), played)))))
    (change,) = kept.changes
    assert (change.path, change.note) == ("app/bad?", "its name is no text; 5 bytes")
    with pytest.raises(ValueError, match="its name is no text"):
        record.work_of(task(), kept)


def test_files_that_could_not_be_taken_are_no_changes() -> None:
    found = episode({})
    lost = Episode(found.session, found.done, found.judged, Work(fault="too many files"))
    assert record.record_of(task(), lost).changes == ()


def test_errors_of_tools_are_counted_once_each() -> None:
    session = episode({}).session
    said(session, Message("tool", "Error: again"), Message("user", "error: nobody's tool"))
    assert record.tool_errors(session) == 2


def test_diffs_are_bounded_in_letters_lines_and_files() -> None:
    chance = random.Random(1)
    long = "\n".join(str(chance.random()) for _ in range(3000))
    files = AS_IT_WAS | {f"{place:03}": text(long) for place in range(600)}
    kept = record.record_of(task(), episode(files))
    assert len(kept.changes) == 500
    assert kept.left_out == ("100 changed files",)
    assert sum(len(one.diff) for one in kept.changes) <= 256 << 10
    assert all(bool(one.diff) != bool(one.note) for one in kept.changes)
    many = record.record_of(task(), episode(AS_IT_WAS | {"a": text("x\n" * 5000)}))
    assert many.changes[0].note == "too long to be compared: 10000 bytes"
    assert len(record.record_of(task(), episode({}, output=b"x" * 99999)).ended.stdout) == 4000


@pytest.mark.parametrize(
    ("calls", "tokens", "letters", "left_out"),
    [
        (1, 3, 10, []),
        (1, 9000, 10, ["tokens"]),
        (1, 3, 30_000, ["tokens", "ends of long messages"]),
        (40, 3, 1900, ["tokens", "ends of long messages", "messages"]),
    ],
)
def test_what_has_no_room_is_left_out_and_said(calls: int, tokens: int, letters: int, left_out: list[str]) -> None:
    chance, session = random.Random(2), Session()
    for _ in range(calls):
        said(session, Message("user", "".join(map(chr, chance.choices(range(0x4E00, 0x9FFF), k=letters)))))
    last = session.calls[-1]
    drawn = tuple(chance.randrange(100_000) for _ in range(tokens))
    session.calls[-1] = replace(last, token_ids=drawn, log_probs=tuple(chance.random() for _ in drawn))
    kept = record.pack(record.to_json(record.record_of(task(), episode(AS_IT_WAS, session))), 50_000)
    assert len(kept) <= 50_000
    found = record.unpack(kept)
    assert found["left_out"] == left_out
    again = record.from_json(found)
    assert again.verdict == Judged(0.0, False, "reward 0", "1 failed")
    assert [again.session == session, bool(again.session.calls)] == [not left_out, "messages" not in left_out]


def test_more_tokens_than_can_be_read_in_a_moment_are_left_out_at_once() -> None:
    kept = record.to_json(record.record_of(task(), episode(AS_IT_WAS)))
    kept["session"]["calls"][0] |= {"token_ids": [1] * (2 << 20)}
    assert record.unpack(record.pack(kept))["left_out"] == ["tokens"]


def test_something_else_is_refused() -> None:
    for kept in ({}, {"form": 2}, record.to_json(record.record_of(task(), episode({}))) | {"session": {}}):
        with pytest.raises(ValueError, match=r"form|record"):
            record.from_json(kept)


def test_what_was_removed_of_an_image_is_shown_and_judged_again() -> None:
    files = {
        "task.toml": '[environment]\ndocker_image = "team/app:1"\nworkdir = "/testbed"\n',
        "instruction.md": "Do it.",
        "tests/test.sh": "true",
    }
    of_image = folder.interpret({path: File(text.encode()) for path, text in files.items()}, "a-task")
    work = Work({"testbed/a.py": File(b"a = 1\n"), "testbed/.wh.b.py": File(), "testbed/d/.wh.c.py": File()})
    kept = record.record_of(of_image, replace(episode({}), work=work))
    assert [(one.path, one.kind, one.note) for one in kept.changes] == [
        ("testbed/a.py", "added", ""), ("testbed/b.py", "removed", "a file of the image"),
        ("testbed/d/c.py", "removed", "a file of the image"),
    ]  # fmt: skip
    again = record.from_json(json.loads(json.dumps(record.to_json(kept))))
    assert record.work_of(of_image, again).files == work.files
