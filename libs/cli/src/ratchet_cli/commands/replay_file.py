"""A file of prompts for an experiment offline."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ratchet.common.v1 import chat_pb2, generation_pb2, problem_pb2
from ratchet.gateway.v1 import experiment_pb2 as pb
from ratchet_cli.terminal.errors import CommandError
from ratchet_kit import json_text

FORM = (
    '{"prompt": "..."} or {"messages": [{"role": "user", "content": "..."}]}, '
    'with "problem_set" and "problem_id" where tests are to score the answers'
)


def replay_prompts(file: Path) -> Sequence[pb.ReplayPrompt]:
    """The prompts, one per line. Raises CommandError, which names an invalid line."""
    try:
        lines = file.read_bytes().split(b"\n")  # no others: a text may hold U+2028
    except OSError as error:
        raise CommandError(f"--prompts {file}: {error}", code=2) from error
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(_prompt(json_text.read(line)))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise CommandError(f"--prompts {file}, line {number}: write {FORM}.", code=2) from error
    if not found:
        raise CommandError(f"--prompts {file} has no prompt.", code=2)
    return found


def _prompt(row: dict[str, Any]) -> pb.ReplayPrompt:
    problem = None
    if "problem_id" in row:
        problem = problem_pb2.ProblemRef(problem_set=row["problem_set"], problem_id=row["problem_id"])
    if "messages" in row:
        prompt = generation_pb2.Prompt(chat=chat_pb2.Chat(messages=map(_message, row["messages"])))
    else:
        prompt = generation_pb2.Prompt(text=row["prompt"])
    return pb.ReplayPrompt(prompt=prompt, problem=problem)


def _message(row: dict[str, Any]) -> chat_pb2.ChatMessage:
    return chat_pb2.ChatMessage(role=row["role"], content=[chat_pb2.ContentPart(text=row["content"])])
