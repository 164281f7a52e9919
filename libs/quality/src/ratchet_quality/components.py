"""The components that read a program, by name. One more is a function in a module of its own, and its line here."""

from collections.abc import Mapping

from ratchet_quality.complexity import complexity
from ratchet_quality.length import length
from ratchet_quality.safety import safety
from ratchet_quality.score import Component
from ratchet_quality.style import style

COMPONENTS: Mapping[str, Component] = {
    "style": style,
    "complexity": complexity,
    "safety": safety,
    "length": length,
}


def names() -> list[str]:
    return list(COMPONENTS)
