"""The environment `edits`: what fails of a program is shown, until all that may be shown passes."""

from ratchet_environments.turns import Seen, clipped


async def reply(seen: Seen) -> str | None:
    """How many tests fail, and of the shortest what came, as a small counterexample says most."""
    grade = seen.ran.grade
    if grade.passed or not seen.tests:
        return None
    if seen.problem.answers:
        return "That is not the right answer."
    wrong = len(seen.tests) - grade.tests_passed
    said = min(seen.failing, key=len, default=clipped(grade.detail or grade.verdict))
    return f"{wrong} of {len(seen.tests)} tests fail: {said}"
