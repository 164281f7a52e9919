"""Problem sets of a run, and the conversation that a problem is put to a model in."""

from collections.abc import Sequence

from ratchet_environments import Task
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import InvalidProblem, Problem, UnknownProblemSet
from ratchet_problems import load as load_set


def load(name: str, limit: int | None = None) -> Sequence[Problem]:
    """The problems of a named set or of a JSONL file, in its own order; `limit` None means all.

    Raises InvalidArgument when there is no such set, or a problem in it cannot be used.
    """
    try:
        problems = load_set(name, limit=limit or 0)
    except (UnknownProblemSet, InvalidProblem) as error:
        raise InvalidArgument(str(error)) from error
    if not problems:
        raise InvalidArgument(f"problem set {name} is empty")
    return problems


def conversation(problem: Problem) -> list[dict[str, str]]:
    """The task's messages, as chat templates take them."""
    return [{"role": message.role, "content": message.content} for message in Task.of(problem).messages]
