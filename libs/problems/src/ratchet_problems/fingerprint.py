"""What a problem is known by when two sets are compared: does one hold problems of the other?"""

import hashlib

from ratchet_problems.problem import Problem


def fingerprint(problem: Problem) -> str:
    """16 hex digits of the sha256 of the prompt, whatever its spacing and case.

    Unlike `Problem.digest` it's the same when only the id, the tests or the source differ: whoever learned the one
    knows the other.
    """
    text = " ".join(problem.prompt.casefold().split())
    return hashlib.sha256(text.encode()).hexdigest()[:16]
