"""The components that read a program: each is a function in a module of its own, both of its name.

What they import (bandit, radon) is loaded by the process that reads, and by no other.
"""

from importlib import import_module
from typing import cast

from ratchet_quality.score import Component
from ratchet_rewards import COMPONENTS as REWARDED

COMPONENTS = ("style", "complexity", "safety", "length")
"""The components of quality."""
READABLE = tuple(name for name, kind in REWARDED.items() if kind.reads)
"""All that reading shows. To be like a reference is no quality, but may be rewarded."""


def component(name: str) -> Component:
    """One of READABLE."""
    return cast(Component, getattr(import_module(f"ratchet_quality.{name}"), name))


def names() -> list[str]:
    return list(COMPONENTS)
