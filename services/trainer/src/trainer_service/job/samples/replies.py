"""What an environment that is a plug-in tells the policy after an answer."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from ratchet_environments.own import problem_to_json
from ratchet_environments.turns import Seen
from ratchet_kit.errors import InvalidArgument


class Replies:
    """A Reply of `ratchet_environments.turns`. Its calls wait in a thread of their own, one after another."""

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        """`call`: the plug-in's function."""
        self._name = name
        self._call = call
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="environment")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    async def __call__(self, seen: Seen) -> str | None:
        """Raises what the call raises, and InvalidArgument for what is no text."""
        grade = seen.ran.grade
        result = {
            "passed": grade.passed,
            "verdict": grade.verdict,
            "tests_passed": grade.tests_passed,
            "tests_total": grade.tests_total,
            "detail": grade.detail,
            "failing": seen.failing,
        }
        problem, loop = problem_to_json(seen.problem), asyncio.get_running_loop()
        said = await loop.run_in_executor(self._thread, self._call, problem, list(seen.answers), result)
        if said is not None and not (isinstance(said, str) and said.strip()):
            raise InvalidArgument(
                f"the environment {self._name} must give a text, or None, not {json.dumps(said)[:60]}"
            )
        return said
