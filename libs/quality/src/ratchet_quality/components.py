"""The components that read a program. One more is a function in a module of its own, both of its name, and a name here.

What they import (bandit, radon) is loaded by the process that reads, and by no other.
"""

from importlib import import_module
from typing import cast

from ratchet_quality.score import Component

COMPONENTS = ("style", "complexity", "safety", "length")
"""Of quality."""
READABLE = (*COMPONENTS, "similarity")
"""All that reading shows. To be like a reference is no quality, but may be rewarded."""


def component(name: str) -> Component:
    """One of READABLE."""
    return cast(Component, getattr(import_module(f"ratchet_quality.{name}"), name))


def names() -> list[str]:
    return list(COMPONENTS)
