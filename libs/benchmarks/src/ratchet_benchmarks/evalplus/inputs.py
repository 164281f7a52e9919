"""MBPP+ is published as JSON, which has no tuples, sets or complex numbers: which arguments are such, by task.

As evalplus 0.3.1 reads them (evalplus/data/mbpp.py).
"""

from collections.abc import Callable
from typing import Any

Convert = Callable[[Any], Any]


def tuples(value: Any) -> list[tuple[Any, ...]]:
    """A list of tuples."""
    return [tuple(item) for item in value]


def tuples_in_a_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(tuples(value))


def deep_tuple(value: Any) -> Any:
    return tuple(map(deep_tuple, value)) if isinstance(value, list) else value


def sets(value: Any) -> list[Any]:
    """A list of sets; an empty one is a dict."""
    return [set(item) if isinstance(item, list) and item else {} for item in value]


def lists_as_tuples(value: Any) -> tuple[Any, ...]:
    return tuple(tuple(item) if isinstance(item, list) else item for item in value)


def values_as_tuples(value: Any) -> dict[Any, tuple[Any, ...]]:
    return {key: tuple(item) for key, item in value.items()}


def _same(value: Any) -> Any:
    return value


def _by_task() -> dict[int, tuple[Convert, ...]]:
    """How each argument of a task is read; the last one serves for all that follow."""
    tasks: dict[tuple[Convert, ...], str] = {
        (tuple,): "2 116 132 143 222 261 273 394 399 421 424 429 470 560 579 596 616 630 726 740 744 809",
        (tuples,): "63 64 70 94 120 237 272 299 400 409 417 438 473 614 780",
        (tuples, _same): "75 413 444 753",
        (_same, tuple): "106 750",
        (sets,): "115",
        (float, complex): "124",
        (tuple, _same): "250 307 405 446 617 720 763 808",
        (tuples_in_a_tuple,): "259 401 445",
        (lists_as_tuples,): "278",
        (values_as_tuples, _same): "722",
        (complex,): "252",
        (deep_tuple,): "580 615 791",
    }
    return {int(task): converts for converts, numbers in tasks.items() for task in numbers.split()}


_TASKS = _by_task()


def read(task_id: str, inputs: list[list[Any]]) -> list[list[Any]]:
    """The arguments of each call. HumanEval's are JSON as they are."""
    family, _, number = task_id.partition("/")
    converts = _TASKS.get(int(number)) if family == "Mbpp" else None
    if converts is None:
        return inputs
    return [
        [converts[min(place, len(converts) - 1)](argument) for place, argument in enumerate(each)] for each in inputs
    ]
