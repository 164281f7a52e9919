"""A spec: all that is wrong with it. What has a module of its own is asked there."""

import re
from collections.abc import Sequence
from dataclasses import asdict

import ratchet_rewards
from ratchet_kit.faults import Faults
from ratchet_kit.names import check_model_name
from ratchet_kit.work import Priority
from ratchet_rewards import Combination
from trainer_service.domain.create.validation import data, hyperparameters, rewards
from trainer_service.domain.inputs.found import Found
from trainer_service.domain.spec import plugins, verl_settings
from trainer_service.domain.spec.algorithms import ALGORITHMS, Algorithm
from trainer_service.domain.spec.limits import Limits
from trainer_service.domain.spec.plugins import PluginKind
from trainer_service.domain.spec.spec import RunSpec
from trainer_service.domain.spec.thresholds import Thresholds

_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}")
MAX_PROFILED = 10
_SHARE: dict[str, float] = {"at_least": 0, "at_most": 1}
_THRESHOLDS: dict[str, dict[str, float]] = {
    "no_signal_share": _SHARE,
    "truncated_share": _SHARE,
    "repetition_rise": _SHARE,
    "tampered_share": _SHARE,
    "tampered_limit": _SHARE,
    "verdict_shift": _SHARE,
    "reward_gap": _SHARE,
    "second_hand_gap": _SHARE,
    "collapse_confidence": {"at_least": 0, "below": 1},
}
_OF_EXAMPLES = {"loss_rise"}
_OF_ALL = {"gradient_spike"}
_OF_ANSWERED = {"collapse_confidence", "reward_limit"}
"""Thresholds of what learns from examples and pairs, of all, and of what answers problems (in validations, too). The
others are of what learns from its own completions."""
_FACTORS = ("gradient_spike", "loss_rise", "length_drift")


def check(spec: RunSpec, found: Found, limits: Limits, faults: Faults) -> None:
    """Adds every fault of a spec that `defaults.complete` has made."""
    faults.length("display_name", spec.display_name, 200)
    if spec.tracker_project:
        fits = _PROJECT.fullmatch(spec.tracker_project)
        faults.unless(bool(fits), "tracker_project", "must be letters, digits, and any of ._ -, 100 at most")
    _check_profile(spec, faults)
    faults.bounds("steps", spec.steps, at_least=1, at_most=limits.max_steps)
    faults.bounds("seed", spec.seed, at_least=0, at_most=2**32 - 1)
    for name, every in (
        ("validate_every", spec.validate_every),
        ("checkpoint_every", spec.checkpoint_every),
        ("max_tokens", spec.max_tokens),
    ):
        if every is not None:
            faults.bounds(name, every, at_least=1)
    if spec.budget is not None and faults.unless(
        limits.prices,
        "budget",
        "must be left out: the operator has set no prices (RATCHET_PRICES), so no cost is known; max_tokens limits a"
        " run, too",
    ):
        faults.bounds("budget", spec.budget, above=0)
    if spec.keep is not None:
        faults.bounds("keep.last", spec.keep.last, at_least=0)
        faults.bounds("keep.best", spec.keep.best, at_least=1)
    if spec.environment is not None:
        spec.environment.check_tool_servers(faults.under("environment"), limits.tool_servers)
    _check_resources(spec, limits, faults.under("resources"))
    _check_names(spec, limits, faults)
    data.check_form(spec, found, faults)
    plugins.check(spec.plugins, found.plugins, faults)
    _check_thresholds(spec.thresholds, faults.under("thresholds"))
    algorithm = ALGORITHMS.get(spec.algorithm)
    verl_settings.check(spec.verl_overrides, algorithm, faults)
    if algorithm is None:
        ratchet_rewards.check(spec.reward, faults.under("reward"), found.rewards)
        if not spec.algorithm and plugins.named(spec.plugins, PluginKind.ALGORITHM):
            return  # what it is, a plug-in would have said
        faults.one_of("algorithm", spec.algorithm.upper(), [name.upper() for name in ALGORITHMS])
        return
    _check_guarded(spec.thresholds, algorithm, faults.under("thresholds"))
    data.check(spec, found, algorithm, faults)
    rewards.check(spec, found, algorithm, faults)
    if found.base and found.base.outputs:
        faults.add("base", "must be a model that writes: it is a classifier, or a reward model, which scores texts")
    if not algorithm.is_online:
        faults.unless(not spec.plugins, "plugins", f"must be absent: {algorithm.name.upper()} has no use for them")
        nothing = f"must be absent: {algorithm.name.upper()} samples nothing to learn from"
        faults.unless(spec.kept_groups is None, "kept_groups", nothing)
    else:
        faults.bounds("kept_groups", spec.kept_groups or 0, at_least=0)
        verl_settings.check_used(spec, algorithm, faults)
        _check_plugins(spec, algorithm, faults)
    if found.base and not found.base.has_tokenizer:
        faults.add("base", "must have a tokenizer: tokenizer.json is missing in its folder")
    for fault in found.base.faults if found.base else ():
        faults.add("base", f"must be a whole model: {fault}")
    if found.base and found.base.quantised:
        plain = "must not be quantised, which cannot be learned from: take the model that it was made of"
        faults.add("base", f"{plain} ({found.base.quantised})")
    hyperparameters.check(spec, found, limits, algorithm, faults)


def notices(spec: RunSpec, found: Found) -> Sequence[str]:
    """What is no fault of a valid spec, and should be known of the run."""
    return [*data.notices(spec, found), *rewards.notices(spec, found), *hyperparameters.notices(spec)]


def _check_names(spec: RunSpec, limits: Limits, faults: Faults) -> None:
    faults.length("loggers", spec.loggers, len(limits.loggers))
    for index, logger in enumerate(spec.loggers[: len(limits.loggers) + 1]):
        if faults.one_of(f"loggers[{index}]", logger, limits.loggers):
            faults.unless(logger not in spec.loggers[:index], f"loggers[{index}]", "must not be named twice")
    if spec.output_model:
        faults.read("output_model", check_model_name, spec.output_model)
    faults.one_of("priority", spec.priority.upper(), [priority.name for priority in Priority])


def _check_profile(spec: RunSpec, faults: Faults) -> None:
    if not spec.profile_steps:
        return
    algorithm = ALGORITHMS.get(spec.algorithm)
    online = algorithm is None or algorithm.is_online
    faults.unless(online, "profile_steps", f"must be absent: steps of {spec.algorithm.upper()} are not traced")
    faults.length("profile_steps", spec.profile_steps, MAX_PROFILED)
    for index, step in enumerate(spec.profile_steps[:MAX_PROFILED]):
        faults.bounds(f"profile_steps[{index}]", step, at_least=1, at_most=max(spec.steps, 1))
        faults.unless(step not in spec.profile_steps[:index], f"profile_steps[{index}]", "must not be named twice")


def _check_resources(spec: RunSpec, limits: Limits, faults: Faults) -> None:
    wanted = spec.resources
    nodes, per_node = wanted.nodes or 0, wanted.accelerators_per_node or 0
    faults.bounds("nodes", nodes, at_least=1, at_most=limits.max_nodes)
    own = limits.accelerators
    if faults.bounds("accelerators_per_node", per_node, at_least=1, at_most=limits.max_accelerators_per_node):
        larger = f"must be at most {own}, as many as this service's own Ray has; RAY_ADDRESS names a larger cluster"
        faults.unless(own is None or per_node <= own, "accelerators_per_node", larger)
    larger = "must be 1, as this service's own Ray has one node; RAY_ADDRESS names a larger cluster"
    faults.unless(own is None or nodes <= 1, "nodes", larger)
    if wanted.min_nodes is not None:
        faults.bounds("min_nodes", wanted.min_nodes, at_least=1, at_most=max(1, nodes))
    engines = 1 if wanted.engines is None else wanted.engines
    faults.bounds("engines", engines, at_least=1, at_most=limits.max_nodes)
    algorithm = ALGORITHMS.get(spec.algorithm)
    none = f"must be absent: {spec.algorithm.upper()} does not generate to learn"
    faults.unless(engines == 1 or algorithm is None or algorithm.is_online, "engines", none)
    if wanted.shares_gpu:
        _check_shared_gpu(spec, algorithm, engines, faults)
    faults.one_of("device", wanted.device.upper(), [device.upper() for device in limits.devices])


def _check_shared_gpu(spec: RunSpec, algorithm: Algorithm | None, engines: int, faults: Faults) -> None:
    is_online = algorithm is None or algorithm.is_online
    faults.unless(is_online, "shares_gpu", f"must be false: {spec.algorithm.upper()} does not generate to learn")
    faults.unless(spec.resources.device != "cpu", "shares_gpu", "must be false on CPUs, which have no GPU to share")
    faults.unless(engines == 1, "shares_gpu", "must be false with several engines")
    together = "must be false with max_staleness, which generates while it learns"
    faults.unless(not spec.hyperparameters.max_staleness, "shares_gpu", together)


def _check_thresholds(thresholds: Thresholds, faults: Faults) -> None:
    for name, value in asdict(thresholds).items():
        within = faults.bounds(name, value, **_THRESHOLDS.get(name, {"at_least": 0}))
        if within and name in _FACTORS:
            faults.unless(value == 0 or value > 1, name, "must be above 1, or 0 for no such guard")


def _check_guarded(thresholds: Thresholds, algorithm: Algorithm, faults: Faults) -> None:
    """A threshold that is set, and that nothing of the run comes to."""
    for name, value in asdict(thresholds).items():
        if name in _OF_EXAMPLES:
            acts = not algorithm.is_online
        elif name in _OF_ANSWERED:
            acts = algorithm.is_rewarded
        else:
            acts = algorithm.is_online or name in _OF_ALL
        is_set = value not in (0, getattr(Thresholds(), name))
        faults.unless(acts or not is_set, name, f"must be absent: {algorithm.name.upper()} has no such guard")


def _check_plugins(spec: RunSpec, algorithm: Algorithm, faults: Faults) -> None:
    name = algorithm.name.upper()
    for index, plugin in enumerate(spec.plugins):
        field = f"plugins[{index}].kind"
        if plugin.kind == PluginKind.LOSS:
            faults.unless(not algorithm.has_own_loss, field, f"must not be loss: {name} has a loss of its own")
        if plugin.kind == PluginKind.ADVANTAGE:
            own = f"must not be advantage: {name} makes advantages of its critic's values"
            faults.unless(not algorithm.has_critic, field, own)
            greedy = f"must not be advantage: {name} makes advantages of its greedy completions"
            faults.unless(not algorithm.has_greedy, field, greedy)
            gdpo = "must not be advantage: gdpo has advantages of its own"
            faults.unless(spec.reward.combination != Combination.GDPO, field, gdpo)
