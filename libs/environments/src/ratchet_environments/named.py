"""Environments by name."""

from ratchet_environments import edits
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.environment import Environment
from ratchet_environments.spec import EnvironmentSpec
from ratchet_environments.turns import Reply, TurnsEnvironment


def environment_of(spec: EnvironmentSpec | None, code: CodeEnvironment, plugin: Reply | None = None) -> Environment:
    """Of a spec that was checked. `code`: runs its programs; it is what there is without a spec. `plugin`: what one
    that is a plug-in says."""
    if spec is None:
        return code
    if spec.plugin:
        assert plugin is not None
        return TurnsEnvironment(code, spec.turns, plugin)
    return TurnsEnvironment(code, spec.turns, edits.reply)
