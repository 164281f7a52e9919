"""What a plug-in of the kind algorithm says: an algorithm of ours, and what is other than it. A spec that names it
becomes one that says the same in full, so that a run's record has everything that it trains by."""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ratchet_kit.errors import InvalidArgument
from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.hyperparameters import Hyperparameters, LearningRateSchedule
from trainer_service.domain.spec.plugins import Plugin, PluginKind
from trainer_service.domain.spec.spec import RunSpec

_PARTS = (PluginKind.SAMPLER, PluginKind.LOSS, PluginKind.ADVANTAGE)
_FIELDS = ("base", "hyperparameters", "verl", *_PARTS)


@dataclass(frozen=True, slots=True)
class Recipe:
    base: str
    """One of ALGORITHMS that learns from its own completions."""
    hyperparameters: Hyperparameters = field(default_factory=Hyperparameters)
    """Before the base's defaults; a spec's own are before both."""
    verl_overrides: tuple[str, ...] = ()
    plugins: tuple[Plugin, ...] = ()
    """Its sampler, loss and advantage, by name."""


def read(said: object) -> Recipe:
    """Of what the plug-in's function gave. Raises InvalidArgument with one sentence."""
    if not isinstance(said, dict):
        raise InvalidArgument("it must give a dict with a base (docs/plugins.md)")
    if strange := [name for name in said if name not in _FIELDS]:
        raise InvalidArgument(f"it has no field {str(strange[0])[:40]!r}: there are {', '.join(_FIELDS)}")
    bases = [row.name for row in ALGORITHMS.values() if row.is_online]
    if said.get("base") not in bases:
        raise InvalidArgument(f"its base must be one of {', '.join(bases)}, not {str(said.get('base'))[:40]!r}")
    settings = said.get("verl", {})
    if not isinstance(settings, dict):
        raise InvalidArgument("its verl must be a dict of verl's settings and their values")
    for kind in _PARTS:
        if not isinstance(said.get(kind, ""), str):
            raise InvalidArgument(f"its {kind} must be the name of an entry point of the group ratchet.{kind}")
    return Recipe(
        base=said["base"],
        hyperparameters=_hyperparameters(said.get("hyperparameters", {})),
        verl_overrides=tuple(f"{name}={_setting(value)}" for name, value in settings.items()),
        plugins=tuple(Plugin(kind.value, said[kind]) for kind in _PARTS if said.get(kind)),
    )


def expanded(spec: RunSpec, recipe: Recipe) -> RunSpec:
    """The spec with what the recipe says where it says nothing itself. Another algorithm than the base stays, for
    `validation.check` to name. Twice is the same as once."""
    given = {override.partition("=")[0] for override in spec.verl_overrides}
    more = [override for override in recipe.verl_overrides if override.partition("=")[0] not in given]
    kinds = {plugin.kind for plugin in spec.plugins}
    return replace(
        spec,
        algorithm=spec.algorithm or recipe.base,
        hyperparameters=spec.hyperparameters.over(recipe.hyperparameters),
        verl_overrides=(*spec.verl_overrides, *more),
        plugins=(*spec.plugins, *(plugin for plugin in recipe.plugins if plugin.kind not in kinds)),
    )


def _hyperparameters(said: object) -> Hyperparameters:
    if not isinstance(said, dict):
        raise InvalidArgument("its hyperparameters must be a dict of names and values")
    kinds: Mapping[str, Any] = typing.get_type_hints(Hyperparameters)
    known = {one.name: kinds[one.name] for one in fields(Hyperparameters)}
    for name, value in said.items():
        if name not in known:
            listed = "docs/training/hyperparameters.md lists them"
            raise InvalidArgument(f"there is no hyperparameter {str(name)[:40]!r} ({listed})")
        wanted = [kind for kind in typing.get_args(known[name]) if kind is not type(None)]
        fits = type(value) in wanted or (float in wanted and type(value) is int)
        if not fits:
            raise InvalidArgument(f"its {name} must be of the kind {wanted[0].__name__}, not {str(value)[:40]!r}")
    schedule = said.get("learning_rate_schedule", LearningRateSchedule.CONSTANT)
    if schedule not in list(LearningRateSchedule):
        raise InvalidArgument(f"its learning_rate_schedule must be one of {', '.join(LearningRateSchedule)}")
    return dataclasses.replace(Hyperparameters(), **said)


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
