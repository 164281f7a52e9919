"""The components that there are, by name, and the presets. What measures them is `ratchet_quality.measuring`.

One more that reads programs is a row here, and a function of its name in a module of its name in ratchet_quality.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ratchet_rewards.reward import Combination, Component, Reward


@dataclass(frozen=True, slots=True)
class Kind:
    """A component, as it is known before anything is measured."""

    low: float = 0.0
    """The worst value; the best is 1."""
    reads: bool = False
    """It is measured by reading the program."""
    runs: bool = False
    """It is measured by running the program."""
    needs_reference: bool = False
    """Nothing can be measured on a problem without one."""
    needs_tests: bool = False
    """It goes by the tests of the problem."""
    needs_model: bool = False
    """A reward model gives the values."""
    parameters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The bounds of each, as `Faults.bounds` takes them."""


OWN = Kind(low=-1.0, parameters={"limit": {"above": 0}})
"""A reward of one's own: scores beyond `limit`, either way, are cut to it, and divided by it."""

COMPONENTS: Mapping[str, Kind] = {
    "tests_passed": Kind(needs_tests=True),
    "tests_fraction": Kind(needs_tests=True),
    "style": Kind(reads=True),
    "complexity": Kind(reads=True, parameters={"allowed": {"at_least": 1}}),
    "efficiency": Kind(runs=True, needs_reference=True, needs_tests=True),
    "length": Kind(reads=True, parameters={"tokens": {"at_least": 1}}),
    "safety": Kind(reads=True),
    "similarity": Kind(reads=True, needs_reference=True),
    "preference": Kind(needs_model=True, parameters={"center": {}, "scale": {"above": 0}}),
}

DEFAULT = "tests_passed"
PRESETS: Mapping[str, Reward] = {
    "balanced": Reward(
        components=(
            Component("tests_passed", 0.7),
            Component("style", 0.2, passing_only=True),
            Component("length", 0.1, passing_only=True),
        ),
        combination=Combination.WEIGHTED_SUM,
    ),
}

NAMES = (*(name for name, each in COMPONENTS.items() if not each.needs_model), *PRESETS)
"""The rewards that need nothing but their name."""


def kind(component: Component) -> Kind:
    """Raises KeyError for a component that there is not."""
    return OWN if component.is_own else COMPONENTS[component.name]
