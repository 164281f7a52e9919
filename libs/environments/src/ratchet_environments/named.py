"""Environments by name."""

from ratchet_environments import edits
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.environment import Environment
from ratchet_environments.spec import EnvironmentSpec
from ratchet_environments.turns import Reply, TurnsEnvironment


def environment_of(spec: EnvironmentSpec | None, code: CodeEnvironment, plugin: Reply | None = None) -> Environment:
    """The environment of a checked spec. `code` runs its programs, and is the environment without a spec. `plugin`: the
    environment of a plug-in."""
    if spec is None:
        return code
    if spec.plugin:
        assert plugin is not None
        return TurnsEnvironment(code, spec.turns, plugin)
    return TurnsEnvironment(code, spec.turns, edits.reply)
