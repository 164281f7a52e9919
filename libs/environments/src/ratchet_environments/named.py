"""Environments by name."""

from ratchet_environments.code import CodeEnvironment
from ratchet_environments.edits import EditsEnvironment
from ratchet_environments.environment import Environment
from ratchet_environments.spec import EnvironmentSpec


def environment_of(spec: EnvironmentSpec | None, code: CodeEnvironment) -> Environment:
    """Of a spec that was checked. `code`: runs its programs; it is what there is without a spec."""
    return EditsEnvironment(code, spec.turns) if spec else code
