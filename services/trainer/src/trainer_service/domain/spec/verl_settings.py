"""verl's settings that a spec may give: those that are a number, a flag or a choice, and that Ratchet leaves open.

What is not listed is refused. Most of verl's other settings name code, modules or paths, which verl would import or
read with the rights of the platform; the rest are set from the spec, and a second value would contradict it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase

from ratchet_kit.faults import Faults
from ratchet_rewards import Combination
from trainer_service.domain.spec.algorithms import Algorithm
from trainer_service.domain.spec.hyperparameters import ROWS
from trainer_service.domain.spec.plugins import PluginKind, named
from trainer_service.domain.spec.spec import RunSpec

_SETTING = re.compile(r"([A-Za-z0-9_.]+)=([^\n\r]*)")
_FLAG = r"(?i:true|false)"
_COUNT = r"[0-9]{1,12}"
_NUMBER = r"-?([0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12})([eE][+-]?[0-9]{1,3})?"


def _choice(*values: str) -> str:
    return "|".join(values)


_ENGINE = {
    "param_offload": _FLAG,
    "optimizer_offload": _FLAG,
    "offload_policy": _FLAG,
    "reshard_after_forward": _FLAG,
    "forward_prefetch": _FLAG,
    "full_determinism": _FLAG,
    "fsdp_size": rf"-1|{_COUNT}",
    "ulysses_sequence_parallel_size": _COUNT,
    "wrap_policy.min_num_params": _COUNT,
    "model_dtype": _choice("fp32", "bf16", "bfloat16", "float32"),
}
_OPTIMIZER = {
    "betas": rf"\[ *{_NUMBER} *, *{_NUMBER} *\]",
}
_MODEL = {
    "enable_activation_offload": _FLAG,
    "use_liger": _FLAG,
}
_ACTOR = {
    "clip_ratio_c": _NUMBER,
    "kl_loss_type": _choice("kl", "abs", "mse", "low_var_kl"),
    "policy_loss.loss_mode": _choice("vanilla", "gpg", "clip_cov", "kl_cov", "geo_mean"),
    "policy_loss.clip_cov_ratio": _NUMBER,
    "policy_loss.clip_cov_lb": _NUMBER,
    "policy_loss.clip_cov_ub": _NUMBER,
    "policy_loss.kl_cov_ratio": _NUMBER,
    "policy_loss.ppo_kl_coef": _NUMBER,
    "ppo_epochs": _COUNT,
    "shuffle": _FLAG,
    "ulysses_sequence_parallel_size": _COUNT,
}
_CRITIC = {
    "cliprange_value": _NUMBER,
    "ppo_epochs": _COUNT,
    "shuffle": _FLAG,
    "ulysses_sequence_parallel_size": _COUNT,
}
_ALGORITHM = {
    "norm_adv_by_std_in_grpo": _FLAG,
    "rollout_correction.rollout_is": _choice("token", "sequence", "null"),
    "rollout_correction.rollout_is_threshold": _NUMBER,
    "rollout_correction.rollout_is_batch_normalize": _FLAG,
}


_SET = {setting for row in ROWS.values() for setting in (*row.rl, *row.examples)}


def _below(prefix: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Leaves out settings of hyperparameters."""
    named = {f"{prefix}.{name}": form for name, form in settings.items()}
    return {name: form for name, form in named.items() if name not in _SET}


RL: Mapping[str, str] = {
    **_below("actor_rollout_ref.actor", _ACTOR),
    **_below("actor_rollout_ref.actor.fsdp_config", _ENGINE),
    **_below("actor_rollout_ref.actor.optim", _OPTIMIZER),
    **_below("actor_rollout_ref.ref.fsdp_config", _ENGINE),
    **_below("actor_rollout_ref.model", _MODEL),
    **_below("critic", _CRITIC),
    **_below("critic.fsdp", _ENGINE),
    **_below("critic.optim", _OPTIMIZER),
    **_below("critic.model", _MODEL),
    **_below("algorithm", _ALGORITHM),
    "trainer.balance_batch": _FLAG,
    "trainer.critic_warmup": _COUNT,
}
"""The form of each setting's value, as a regular expression, for algorithms that learn from rewards."""
EXAMPLES: Mapping[str, str] = {
    **_below("engine", _ENGINE),
    **_below("optim", _OPTIMIZER),
    **_below("model", _MODEL),
    "trainer.balance_batch": _FLAG,
}
"""The same for those that learn from examples."""
PAIRS: Mapping[str, str] = {name: form for name, form in EXAMPLES.items() if name != "trainer.balance_batch"}
"""The same for those that learn from pairs, which stay together."""


_LOSS = "actor_rollout_ref.actor.policy_loss.loss_mode"
_DEVIATION = "algorithm.norm_adv_by_std_in_grpo"
_OWN_LOSSES = ("gspo", "cispo")


def _hyperparameters() -> Iterator[tuple[str, str]]:
    """Hints of the rows of hyperparameters: names before patterns."""
    named: dict[str, list[str]] = {}
    for name, row in ROWS.items():
        for pattern in dict.fromkeys((*row.rl, *row.examples, *row.stands_for)):
            named.setdefault(pattern, []).append(name)
    for pattern in sorted(named, key=lambda pattern: "*" in pattern):
        one, *more = named[pattern]
        said = f"hyperparameters {' and '.join([one, *more])} say" if more else f"hyperparameter {one} says"
        yield pattern, f"the {said} it"


_REPLACED: tuple[tuple[str, str], ...] = (
    ("reward*", "the spec's reward sets it (docs/rewards.md)"),
    ("custom_reward_function*", "the spec's reward sets it (docs/rewards.md)"),
    ("algorithm.gdpo_*", "the spec's reward sets it (docs/rewards.md)"),
    *_hyperparameters(),
    ("algorithm.adv_estimator", "the spec's algorithm says it, or a plug-in of the kind advantage (docs/plugins.md)"),
    ("algorithm.filter_groups*", "the spec's algorithm says it: DAPO leaves out groups without a signal"),
    ("data.train_files", "the spec's problems say it (for DPO its pairs)"),
    ("data.val_files", "the spec's validation_problems say it"),
    ("data.train_max_samples", "the limit of the spec's problems says it"),
    ("data.val_max_samples", "the limit of the spec's validation_problems says it"),
    ("data.filter_overlong_prompts*", "the spec's refuse_long_prompts says it"),
    ("data.custom_cls*", "a plug-in of the kind dataset gives problems (docs/plugins.md)"),
    ("data.sampler*", "a plug-in of the kind sampler draws problems (docs/plugins.md)"),
    ("data.shuffle", "a plug-in of the kind sampler draws problems (docs/plugins.md)"),
    ("data.seed", "the spec's seed says it"),
    ("data.*chat_template*", "the spec's prompt_form says how prompts are put"),
    ("actor_rollout_ref.rollout.*", "the rollout service generates, with settings of its own"),
    ("actor_rollout_ref.model.path", "the spec's base says it"),
    ("actor_rollout_ref.actor.loss_agg_mode", "the spec's algorithm says it, or a plug-in of the kind loss"),
    ("trainer.logger", "the spec's loggers say it"),
    ("trainer.total_*", "the spec's steps and max_tokens say it"),
    ("trainer.save_freq", "the spec's checkpoint_every says it"),
    ("trainer.test_freq", "the spec's validate_every says it"),
    ("trainer.n*nodes", "the spec's resources say it"),
    ("trainer.n_gpus_per_node", "the spec's resources say it"),
    ("trainer.device", "the spec's resources say it"),
    ("trainer.*_name", "the spec's display_name is for people"),
    ("trainer.resume*", "Ratchet resumes a run at its last checkpoint (ratchet runs resume)"),
    ("trainer.default_local_dir", "Ratchet keeps a run's checkpoints in its own folder"),
)
"""What verl names and Ratchet has in its own place: the first pattern of a setting's name counts."""


def _hint(name: str) -> str:
    found = (hint for pattern, hint in _REPLACED if fnmatchcase(name, pattern))
    return next(found, "docs/training/hyperparameters.md lists verl's settings that a run may give")


def check(overrides: tuple[str, ...], algorithm: Algorithm | None, faults: Faults) -> None:
    """Adds a fault for each override that is not `setting=value` of a setting above, each with the setting's name."""
    known = RL if algorithm is None or algorithm.is_online else PAIRS if algorithm.takes_pairs else EXAMPLES
    seen: set[str] = set()
    for index, override in enumerate(overrides):
        field = f"verl_overrides[{index}]"
        parts = _SETTING.fullmatch(override)
        if parts is None:
            faults.add(field, f'must be "setting=value", with no sign before it, not {override[:80]!r}')
            continue
        name, value = parts.groups()
        if name not in known:
            faults.add(field, f"must not set {name[:80]}: {_hint(name)}")
        elif name == _LOSS and value in _OWN_LOSSES:
            faults.add(field, f"must not set {name} to {value}: {value.upper()} is an algorithm")
        elif not re.fullmatch(known[name], value):
            faults.add(field, f"must give {name} a value of its kind, not {value[:40]!r}")
        elif name in seen:
            faults.add(field, f"must not set {name} a second time")
        seen.add(name)


def check_used(spec: RunSpec, algorithm: Algorithm, faults: Faults) -> None:
    """Adds a fault for each setting that verl would take and not use in a run of RL."""
    given = dict(override.partition("=")[::2] for override in spec.verl_overrides)
    for index, override in enumerate(spec.verl_overrides):
        name = override.partition("=")[0]
        needed = next((says(spec, algorithm, given) for prefix, says in _USES if name.startswith(prefix)), "")
        if needed:
            faults.add(f"verl_overrides[{index}]", f"must not set {name[:80]}: {needed}")


_Says = Callable[[RunSpec, Algorithm, Mapping[str, str]], str]
"""Why a setting would have no effect, by the spec, its algorithm and its settings; empty where it has one."""


def _of_critic(spec: RunSpec, algorithm: Algorithm, given: Mapping[str, str]) -> str:
    return "" if algorithm.has_critic else f"{algorithm.name.upper()} has no critic"


def _of_deviation(spec: RunSpec, algorithm: Algorithm, given: Mapping[str, str]) -> str:
    if spec.reward.combination == Combination.GDPO:
        return "gdpo normalises each component in its group"
    if named(spec.plugins, PluginKind.ADVANTAGE):
        return "the advantages are the plug-in's"
    return "" if algorithm.divides_by_deviation else f"{algorithm.name.upper()} divides by no deviation"


def _of_choice(spec: RunSpec, algorithm: Algorithm, given: Mapping[str, str]) -> str:
    if named(spec.plugins, PluginKind.LOSS):
        return "the loss is the plug-in's"
    return f"the loss is {algorithm.name.upper()}'s own" if algorithm.has_own_loss else ""


def _of_loss(*modes: str) -> _Says:
    def says(spec: RunSpec, algorithm: Algorithm, given: Mapping[str, str]) -> str:
        if named(spec.plugins, PluginKind.LOSS):
            return ""  # which may read it
        other = algorithm.has_own_loss or given.get(_LOSS, "vanilla") not in modes
        return f"only the loss {modes[0]} reads it" if other else ""

    return says


def _of_penalty(spec: RunSpec, algorithm: Algorithm, given: Mapping[str, str]) -> str:
    return "" if spec.hyperparameters.kl_coefficient else "kl_coefficient is 0"


def _of_penalty_in_loss(spec: RunSpec, algorithm: Algorithm, given: Mapping[str, str]) -> str:
    return "kl_in_reward is true" if spec.hyperparameters.kl_in_reward else _of_penalty(spec, algorithm, given)


_USES: tuple[tuple[str, _Says], ...] = (
    ("critic.", _of_critic),
    ("trainer.critic_warmup", _of_critic),
    (_DEVIATION, _of_deviation),
    (_LOSS, _of_choice),
    ("actor_rollout_ref.actor.clip_ratio_c", _of_loss("vanilla")),
    ("actor_rollout_ref.actor.policy_loss.clip_cov_", _of_loss("clip_cov")),
    ("actor_rollout_ref.actor.policy_loss.kl_cov_ratio", _of_loss("kl_cov")),
    ("actor_rollout_ref.actor.policy_loss.ppo_kl_coef", _of_loss("kl_cov")),
    ("actor_rollout_ref.actor.kl_loss_type", _of_penalty_in_loss),
    ("actor_rollout_ref.ref.", _of_penalty),
)
"""By the beginning of a setting's name."""
