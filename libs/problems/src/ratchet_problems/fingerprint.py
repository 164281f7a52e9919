"""The fingerprint by which a problem is known when two sets are compared: does one hold problems of the other?"""

import hashlib
import json
from collections.abc import Iterable

from ratchet_problems.problem import Problem


def fingerprint(problem: Problem) -> str:
    """16 hex digits of the sha256 of the prompt, whatever its spacing and case; of a conversation all that its user and
    the assistant say.

    Unlike `Problem.digest` it's the same when only the id, the tests or the source differ: whoever learned the one
    knows the other.
    """
    return _of_texts(message.content for message in problem.messages if message.role != "system")


def taught(problem: Problem) -> tuple[str, ...]:
    """Fingerprints of all that is learned with the problem: its own, and those of the messages of its user."""
    said = [_of_texts([message.content]) for message in problem.messages if message.role == "user"]
    return tuple(dict.fromkeys([fingerprint(problem), *said]))


def tests_fingerprint(problem: Problem) -> str:
    """The same of the tests, whatever their order: a problem whose prompt was reworded still has them. Empty where
    there are none; a right answer tells nothing, as many problems have the same."""
    if not problem.tests or problem.answers:
        return ""
    return _hashed(*sorted(json.dumps(test.to_json(), sort_keys=True) for test in problem.tests))


def _of_texts(texts: Iterable[str]) -> str:
    return _hashed(" ".join(" ".join(texts).casefold().split()))


def _hashed(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
