"""What is wrong with a spec: every fault at once, each with the path of its field in the request."""

import math
import re
from collections.abc import Iterator

from ratchet_kit.errors import FieldViolation
from trainer_service.domain import defaults
from trainer_service.domain.platform import Platform, Surroundings
from trainer_service.domain.spec import Algorithm, Hyperparameters, ModelRef, Priority, ProblemSetRef, RunSpec

GROUPED = {Algorithm.GRPO, Algorithm.RLOO, Algorithm.DAPO}
"""Algorithms whose baseline is the rest of the group: a group of one has none."""

MODEL_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_VERSION = re.compile(r"(?:models/(?P<long>[^/@:]+)/versions/(?P<n>\d+)|(?P<short>[^/@:]+)@(?P<m>\d+))")
_ALIAS = re.compile(r"[^/@:\s]+:[^/@:\s]+")
_OVERRIDE = re.compile(r"(\+{0,2}[A-Za-z_][\w.@/-]*=[^\n\r]*|~[A-Za-z_][\w.@/-]*(=[^\n\r]*)?)")
# Exclusive bounds below, inclusive above; None: open.
_RANGES: dict[str, tuple[float | None, float | None]] = {
    "learning_rate": (0, 1),
    "critic_learning_rate": (0, 1),
    "temperature": (0, 10),
    "clip_low": (0, 1),
    "clip_high": (0, 10),
    "max_grad_norm": (0, None),
}
_FRACTIONS = ("gae_lambda", "gamma")
_NOT_NEGATIVE = ("kl_coefficient", "entropy_coefficient", "warmup_steps", "weight_decay")
_COUNTS = (
    "batch_size",
    "group_size",
    "mini_batch_size",
    "micro_batch_size",
    "max_prompt_tokens",
    "max_response_tokens",
)


def faults(spec: RunSpec, platform: Platform, around: Surroundings) -> list[FieldViolation]:
    """Every fault of the spec, but for references that lead nowhere, which the caller adds."""
    return [FieldViolation(f"spec.{field}", says) for field, says in _all(spec, platform, around)]


def is_reference(base: ModelRef) -> bool:
    """Whether it can be looked for."""
    return not any(_base(base))


def is_problem_set(ref: ProblemSetRef) -> bool:
    """Whether it can be looked for."""
    return bool(ref.name.strip()) and ref.limit >= 0


def version_parts(value: str) -> tuple[str, int] | None:
    """Model and number of "<model>@<n>" or "models/<model>/versions/<n>"; None when it is neither."""
    match = _VERSION.fullmatch(value)
    return (match["long"] or match["short"], int(match["n"] or match["m"])) if match else None


def alias_parts(value: str) -> tuple[str, str] | None:
    """Model and alias of "<model>:<alias>"; None when it is not one."""
    if not _ALIAS.fullmatch(value):
        return None
    model, _, alias = value.partition(":")
    return model, alias


Fault = tuple[str, str]


def _all(spec: RunSpec, platform: Platform, around: Surroundings) -> Iterator[Fault]:
    if len(spec.display_name) > 200:
        yield "display_name", "must have at most 200 characters"
    yield from _base(spec.base)
    yield from _work(spec, platform)
    yield from _resources(spec, platform)
    yield from _choices(spec, platform)
    if isinstance(spec.algorithm, Algorithm):
        yield from _hyperparameters(spec, spec.algorithm, platform, around)


def _base(base: ModelRef | None) -> Iterator[Fault]:
    if base is None or not base.value.strip():
        yield "base", "is missing: name a registry version, an alias or a path"
    elif base.kind == "version" and version_parts(base.value) is None:
        yield "base.version", f'"{base.value}" is not "<model>@<n>" or "models/<model>/versions/<n>"'
    elif base.kind == "alias" and alias_parts(base.value) is None:
        yield "base.alias", f'"{base.value}" is not "<model>:<alias>"'


def _work(spec: RunSpec, platform: Platform) -> Iterator[Fault]:
    if not isinstance(spec.algorithm, Algorithm):
        known = ", ".join(algorithm.name for algorithm in Algorithm)
        yield (
            "algorithm",
            f"{spec.algorithm} is not known: use one of {known}"
            if spec.algorithm
            else (f"is missing: use one of {known}"),
        )
    if not spec.problems.name.strip():
        yield "problems.name", "is missing: name a problem set or a JSONL file"
    for name, problems in (("problems", spec.problems), ("validation_problems", spec.validation_problems)):
        if problems and problems.limit < 0:
            yield f"{name}.limit", "must not be negative"
    if spec.validation_problems and not spec.validation_problems.name.strip():
        yield "validation_problems.name", "is missing: name a problem set, or leave validation_problems out"
    if not 1 <= spec.steps <= platform.max_steps:
        yield "steps", f"must be 1 to {platform.max_steps}, not {spec.steps}"
    if not 0 <= spec.seed < 2**32:
        yield "seed", "must be 0 to 4294967295"
    for name in ("validate_every", "checkpoint_every"):
        if getattr(spec, name) < 0:
            yield name, "must not be negative"


def _resources(spec: RunSpec, platform: Platform) -> Iterator[Fault]:
    asked = spec.resources
    if not 0 <= asked.nodes <= platform.max_nodes:
        yield "resources.nodes", f"must be 1 to {platform.max_nodes}, not {asked.nodes}"
    if not 0 <= asked.accelerators_per_node <= platform.max_accelerators_per_node:
        limit = platform.max_accelerators_per_node
        yield "resources.accelerators_per_node", f"must be 1 to {limit}, not {asked.accelerators_per_node}"
    elif platform.accelerators is not None and asked.accelerators_per_node > platform.accelerators:
        has = f"this service's own Ray has {platform.accelerators} of them; RAY_ADDRESS names a larger cluster"
        yield "resources.accelerators_per_node", f"is {asked.accelerators_per_node}, and {has}"
    if platform.accelerators is not None and asked.nodes > 1:
        yield "resources.nodes", "this service's own Ray has one node; RAY_ADDRESS names a larger cluster"
    if asked.device and asked.device not in platform.devices:
        yield "resources.device", f'"{asked.device}" is not available: use {" or ".join(platform.devices)}'


def _choices(spec: RunSpec, platform: Platform) -> Iterator[Fault]:
    if spec.reward and spec.algorithm is Algorithm.SFT:
        yield "reward.name", "SFT learns from references and takes no reward"
    elif spec.reward and spec.reward not in platform.rewards:
        yield "reward.name", f'"{spec.reward}" is not known: use {" or ".join(platform.rewards)}'
    for index, logger in enumerate(spec.loggers):
        if logger not in platform.loggers:
            yield f"loggers[{index}]", f'"{logger}" is not known: use {", ".join(platform.loggers)}'
        elif logger in spec.loggers[:index]:
            yield f"loggers[{index}]", f'"{logger}" is named twice'
    if spec.output_model and not MODEL_NAME.fullmatch(spec.output_model):
        yield "output_model", 'must be lower case letters, digits, "-", "_", "." and start with a letter or digit'
    if spec.priority and not isinstance(spec.priority, Priority):
        yield "priority", f"{spec.priority} is not known: use LOW, NORMAL or HIGH"
    for index, override in enumerate(spec.verl_overrides):
        if not _OVERRIDE.fullmatch(override):
            yield f"verl_overrides[{index}]", f'"{override}" is not "key=value" in Hydra\'s form'


def _hyperparameters(spec: RunSpec, algorithm: Algorithm, platform: Platform, around: Surroundings) -> Iterator[Fault]:
    single = [*_single(spec.hyperparameters, algorithm)]
    yield from single or _together(spec, algorithm, platform, around)


def _single(asked: Hyperparameters, algorithm: Algorithm) -> Iterator[Fault]:
    """Each value by itself."""
    applicable = defaults.applicable(algorithm)
    for name, value in vars(asked).items():
        field = f"hyperparameters.{name}"
        if value is None:
            continue
        if name not in applicable:
            yield field, f"means nothing to {algorithm.name}: leave it out"
        elif not math.isfinite(value):
            yield field, "must be a finite number"
        elif name in _COUNTS and value < 1:
            yield field, f"must be at least 1, not {value}"
        elif name in _FRACTIONS and not 0 <= value <= 1:
            yield field, f"must be 0 to 1, not {value:g}"
        elif name in _NOT_NEGATIVE and value < 0:
            yield field, "must not be negative"
        elif name in _RANGES:
            low, high = _RANGES[name]
            if (low is not None and value <= low) or (high is not None and value > high):
                above = f" and at most {high:g}" if high is not None else ""
                yield field, f"must be above {low:g}{above}, not {value:g}"
    if algorithm in GROUPED and asked.group_size == 1:
        yield "hyperparameters.group_size", f"{algorithm.name} compares completions of a group: at least 2"


def _together(spec: RunSpec, algorithm: Algorithm, platform: Platform, around: Surroundings) -> Iterator[Fault]:
    """The values against one another and against what the references lead to, with the defaults in place."""
    ranks = max(spec.resources.nodes, 1) * max(spec.resources.accelerators_per_node, 1)
    taken = defaults.hyperparameters(algorithm, spec.hyperparameters, ranks, around.base)
    yield from _batches(taken, ranks, platform)
    yield from _lengths(taken, platform, around)
    batch = taken.batch_size or 0
    if around.problems is not None and around.problems < batch:
        yield "problems.name", f"holds {around.problems} problems, and batch_size is {batch}"
    # The loss of a validation is measured in whole passes of all ranks.
    least = (taken.micro_batch_size or 1) * ranks if algorithm is Algorithm.SFT else 1
    if around.validation_problems is not None and around.validation_problems < least:
        field = (
            "validation_problems.limit"
            if spec.validation_problems and spec.validation_problems.limit
            else ("validation_problems.name")
        )
        yield field, f"leaves {around.validation_problems} problems, and {least} are needed (ranks x micro_batch_size)"


def _batches(taken: Hyperparameters, ranks: int, platform: Platform) -> Iterator[Fault]:
    batch, group = taken.batch_size or 0, taken.group_size or 1
    mini, micro = taken.mini_batch_size or batch, taken.micro_batch_size or 0
    sequences, share = batch * group, defaults.per_rank(taken, ranks)
    if sequences > platform.max_sequences:
        yield "hyperparameters.batch_size", f"makes {sequences} sequences a step: at most {platform.max_sequences}"
    if sequences % ranks:
        yield "hyperparameters.batch_size", f"{batch} x {group} sequences are not divisible by {ranks} ranks"
    if batch % mini:
        yield "hyperparameters.mini_batch_size", f"{mini} does not divide batch_size {batch}"
    elif not sequences % ranks and not share:
        yield "hyperparameters.mini_batch_size", f"{mini} x {group} sequences are not divisible by {ranks} ranks"
    elif share and share % micro:
        yield "hyperparameters.micro_batch_size", f"{micro} does not divide the {share} sequences of a rank's update"


def _lengths(taken: Hyperparameters, platform: Platform, around: Surroundings) -> Iterator[Fault]:
    tokens = (taken.max_prompt_tokens or 0) + (taken.max_response_tokens or 0)
    of_base = around.base.max_tokens if around.base else 0
    if tokens > (of_base or platform.max_tokens):
        room = f"the base has room for {of_base}" if of_base else f"at most {platform.max_tokens}"
        yield "hyperparameters.max_response_tokens", f"prompt and response make {tokens} tokens: {room}"
