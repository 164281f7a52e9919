"""What is wrong with a complete spec: every fault at once, each with the path of its field in the request."""

import math
import re
from collections.abc import Iterator
from dataclasses import asdict

from ratchet_kit.errors import FieldViolation
from trainer_service.domain.algorithms import ALGORITHMS, Algorithm
from trainer_service.domain.limits import Limits
from trainer_service.domain.references import Found
from trainer_service.domain.spec import Hyperparameters, Priority, RunSpec

MODEL_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_OVERRIDE = re.compile(r"(\+{0,2}[A-Za-z_][\w.@/-]*=[^\n\r]*|~[A-Za-z_][\w.@/-]*(=[^\n\r]*)?)")
# Exclusive bounds below, inclusive above; None: open.
_RANGES: dict[str, tuple[float, float | None]] = {
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

Fault = tuple[str, str]


def faults(spec: RunSpec, found: Found, limits: Limits) -> list[FieldViolation]:
    """Every fault of a spec that `defaults.complete` has made, those of its references included."""
    return [*found.faults, *(FieldViolation(f"spec.{field}", reason) for field, reason in _all(spec, found, limits))]


def _all(spec: RunSpec, found: Found, limits: Limits) -> Iterator[Fault]:
    if len(spec.display_name) > 200:
        yield "display_name", "must have at most 200 characters"
    yield from _work(spec, limits)
    yield from _resources(spec, limits)
    yield from _choices(spec, limits)
    algorithm = ALGORITHMS.get(spec.algorithm)
    if algorithm is None:
        known = ", ".join(name.upper() for name in ALGORITHMS)
        reason = f"{spec.algorithm} is not known" if spec.algorithm else "is missing"
        yield "algorithm", f"{reason}: use one of {known}"
        return
    if spec.reward and algorithm.takes_examples:
        yield "reward.name", f"{algorithm.name.upper()} learns from references and takes no reward"
    single = [*_single(spec.hyperparameters, algorithm)]
    yield from single or _together(spec, found, limits, algorithm)


def _work(spec: RunSpec, limits: Limits) -> Iterator[Fault]:
    if not 1 <= spec.steps <= limits.max_steps:
        yield "steps", f"must be 1 to {limits.max_steps}, not {spec.steps}"
    if not 0 <= spec.seed < 2**32:
        yield "seed", "must be 0 to 4294967295"
    for name in ("validate_every", "checkpoint_every"):
        if getattr(spec, name) < 0:
            yield name, "must not be negative"


def _resources(spec: RunSpec, limits: Limits) -> Iterator[Fault]:
    wanted = spec.resources
    if not 1 <= wanted.nodes <= limits.max_nodes:
        yield "resources.nodes", f"must be 1 to {limits.max_nodes}, not {wanted.nodes}"
    if not 1 <= wanted.accelerators_per_node <= limits.max_accelerators_per_node:
        bound = limits.max_accelerators_per_node
        yield "resources.accelerators_per_node", f"must be 1 to {bound}, not {wanted.accelerators_per_node}"
    elif limits.accelerators is not None and wanted.accelerators_per_node > limits.accelerators:
        has = f"this service's own Ray has {limits.accelerators} of them; RAY_ADDRESS names a larger cluster"
        yield "resources.accelerators_per_node", f"is {wanted.accelerators_per_node}, and {has}"
    if limits.accelerators is not None and wanted.nodes > 1:
        yield "resources.nodes", "this service's own Ray has one node; RAY_ADDRESS names a larger cluster"
    if wanted.device not in limits.devices:
        yield "resources.device", f'"{wanted.device}" is not available: use {" or ".join(limits.devices)}'


def _choices(spec: RunSpec, limits: Limits) -> Iterator[Fault]:
    if spec.reward and spec.reward not in limits.rewards:
        yield "reward.name", f'"{spec.reward}" is not known: use {" or ".join(limits.rewards)}'
    for index, logger in enumerate(spec.loggers):
        if logger not in limits.loggers:
            yield f"loggers[{index}]", f'"{logger}" is not known: use {", ".join(limits.loggers)}'
        elif logger in spec.loggers[:index]:
            yield f"loggers[{index}]", f'"{logger}" is named twice'
    if spec.output_model and not MODEL_NAME.fullmatch(spec.output_model):
        yield "output_model", 'must be lower case letters, digits, "-", "_", "." and start with a letter or digit'
    if spec.priority not in list(Priority):
        yield "priority", f"{spec.priority} is not known: use LOW, NORMAL or HIGH"
    for index, override in enumerate(spec.verl_overrides):
        if not _OVERRIDE.fullmatch(override):
            yield f"verl_overrides[{index}]", f'"{override}" is not "key=value" in Hydra\'s form'


def _single(taken: Hyperparameters, algorithm: Algorithm) -> Iterator[Fault]:
    """Each value by itself."""
    for name, value in asdict(taken).items():
        field = f"hyperparameters.{name}"
        if value is None:
            continue
        if name not in algorithm.applicable:
            yield field, f"is not used by {algorithm.name.upper()}: leave it out"
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
            if value <= low or (high is not None and value > high):
                above = f" and at most {high:g}" if high is not None else ""
                yield field, f"must be above {low:g}{above}, not {value:g}"
    if algorithm.is_grouped and taken.group_size == 1:
        yield "hyperparameters.group_size", f"{algorithm.name.upper()} compares completions of a group: at least 2"


def _together(spec: RunSpec, found: Found, limits: Limits, algorithm: Algorithm) -> Iterator[Fault]:
    """The values against one another, and against what the references lead to."""
    taken, ranks = spec.hyperparameters, spec.resources.ranks
    yield from _batches(taken, ranks, limits)
    yield from _lengths(taken, found, limits)
    batch = taken.batch_size or 0
    if found.problems and found.problems.size < batch:
        yield "problems.name", f"holds {found.problems.size} problems, and batch_size is {batch}"
    # The loss of a validation is measured in whole passes of all ranks.
    least = (taken.micro_batch_size or 1) * ranks if algorithm.takes_examples else 1
    if found.validation_problems and found.validation_problems.size < least:
        ref, size = found.validation_problems.ref, found.validation_problems.size
        field = "validation_problems.limit" if ref.limit else "validation_problems.name"
        yield field, f"leaves {size} problems, and {least} are needed (ranks x micro_batch_size)"


def _batches(taken: Hyperparameters, ranks: int, limits: Limits) -> Iterator[Fault]:
    batch, group = taken.batch_size or 0, taken.group_size or 1
    mini, micro = taken.mini_batch_size or batch, taken.micro_batch_size or 0
    sequences, share = batch * group, taken.update_sequences(ranks)
    if sequences > limits.max_sequences:
        yield "hyperparameters.batch_size", f"makes {sequences} sequences per step: at most {limits.max_sequences}"
    if sequences % ranks:
        yield "hyperparameters.batch_size", f"{batch} x {group} sequences are not divisible by {ranks} ranks"
    if batch % mini:
        yield "hyperparameters.mini_batch_size", f"{mini} does not divide batch_size {batch}"
    elif not sequences % ranks and not share:
        yield "hyperparameters.mini_batch_size", f"{mini} x {group} sequences are not divisible by {ranks} ranks"
    elif share and share % micro:
        yield "hyperparameters.micro_batch_size", f"{micro} does not divide the {share} sequences of a rank's update"


def _lengths(taken: Hyperparameters, found: Found, limits: Limits) -> Iterator[Fault]:
    of_base = found.base.max_tokens if found.base else 0
    if taken.max_tokens > (of_base or limits.max_tokens):
        room = f"the base has room for {of_base}" if of_base else f"at most {limits.max_tokens}"
        yield "hyperparameters.max_response_tokens", f"prompt and response make {taken.max_tokens} tokens: {room}"
