"""The fingerprint by which a problem is known when two sets are compared: does one hold problems of the other?"""

import hashlib
import json

from ratchet_problems.problem import Problem


def fingerprint(problem: Problem) -> str:
    """16 hex digits of the sha256 of the prompt, whatever its spacing and case.

    Unlike `Problem.digest` it's the same when only the id, the tests or the source differ: whoever learned the one
    knows the other.
    """
    return _hashed(" ".join(problem.prompt.casefold().split()))


def tests_fingerprint(problem: Problem) -> str:
    """The same of the tests, whatever their order: a problem whose prompt was reworded still has them. Empty where
    there are none."""
    return (
        _hashed(*sorted(json.dumps(test.to_json(), sort_keys=True) for test in problem.tests)) if problem.tests else ""
    )


def _hashed(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
