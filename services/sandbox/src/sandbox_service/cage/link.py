"""What both sides of a check test have in common: how values of the library and of numpy are made of their parts."""

from collections.abc import Callable
from typing import Any

import arrays
import library


def value(body: Any, decode: Callable[[Any], Any]) -> Any:
    """Of the body of an `l`: see library.py. Raises whatever wrong parts make a constructor raise."""
    name, *parts = body
    parts = [decode(part) for part in parts]
    return arrays.build(name, parts) if name.startswith("numpy.") else library.build(name, parts)
