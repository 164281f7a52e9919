"""The memory that a run's training takes, the passes that make it fit, and the forecast that callers see.

Counted from the shape of the model and the lengths of its sequences; what processes take before they have a model, and
the speed of a CPU, are rough numbers (`tests/bench/training_memory.py` measures a job). Bytes, if nothing else is said.

What does not depend on a pass: float32 weights, gradients and the two moments of Adam, 16 bytes a parameter
(arXiv:1910.02054, section 3.1, without its half-precision copies), what is sent to the rollout engine, the reference
policy and the critic. What does: the activations that the backward pass needs (arXiv:2205.05198, section 4),
and the logits of a slice of the tokens.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.usage import Usage
from trainer_service.domain.inputs.found import Found, Shape
from trainer_service.domain.run.run import Forecast
from trainer_service.domain.spec.algorithms import ALGORITHMS, Algorithm
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.limits import GIB, Limits
from trainer_service.domain.spec.spec import Passes, Resources, RunSpec

COMFORTABLE = {"cpu": 0.5, "cuda": 0.85}
"""The share of what a run may take that is filled by choice: a machine has other work, a GPU has not."""
SPEED = {"cpu": 50e9}
"""Operations a second of one core, over a whole step (measured: SmolLM2 and the starter, two cores of an AMD EPYC)."""
MOST_CORES = 16
"""More of them make no step faster."""
BESIDE_S = 2.0
"""Seconds of a step that no operations of the model are: programs, queues, weights that are sent."""
SLICE = 512
"""Tokens whose logits are there at a time (verl/rank/head.py)."""
SLICE_COPIES = 2
"""Of the logits of a slice: themselves and their probabilities."""
HIDDEN_COPIES = 12
INNER_COPIES = 4
"""Activations of a layer that are kept for its backward pass: vectors of the hidden and of the MLP's inner size."""
PROCESS = int(0.7 * GIB)
"""A training rank before it has a model: Python, torch, verl, Ray."""
JOB = int(1.2 * GIB)
"""The processes of a job that are no ranks: the driver, Ray's own, the queue."""
SCORED_TOKENS = 4096
"""Of a pass of a reward model, padding included."""
LORA_RANK = 16
"""That is proposed where all weights are too many."""
LEAST_TOKENS = 1024
"""Of a pass where the memory is not known."""
MOST_TOKENS = {"cpu": 4096, "cuda": 16384}
"""Of a pass: more of them make no step faster."""


@dataclass(frozen=True, slots=True)
class Training:
    """What is trained, as far as memory is concerned."""

    shape: Shape
    max_tokens: int
    """Of the longest sequence, or pair of them."""
    ranks: int
    ranks_per_node: int
    device: str
    activation_bytes: int
    """Of one number: 4 in float32, 2 in bfloat16."""
    has_reference: bool = False
    has_critic: bool = False
    max_staleness: int = 0
    lora_rank: int | None = 0
    """0: all parameters are trained. None: so they are, and there is no other way."""
    reward_model_bytes: int = 0
    """Of the one that scores completions, in the driver's process: `scoring_bytes`."""

    @classmethod
    def of(
        cls, shape: Shape, hyper: Hyperparameters, ranks: int, ranks_per_node: int, device: str, activation_bytes: int,
        has_critic: bool, pairs: bool, reward_model_bytes: int,
    ) -> "Training":  # fmt: skip
        return cls(
            shape=shape,
            max_tokens=hyper.together(pairs),
            ranks=ranks,
            ranks_per_node=ranks_per_node,
            device=device,
            activation_bytes=activation_bytes,
            has_reference=bool(hyper.kl_coefficient),
            has_critic=has_critic,
            max_staleness=hyper.max_staleness or 0,
            lora_rank=hyper.lora_rank,
            reward_model_bytes=reward_model_bytes,
        )

    def bytes(self, passes: Passes) -> int:
        """The peak: on CPU of all processes on one machine, on CUDA of one GPU."""
        rank = self._kept() + self._pass(passes)
        if self.device == "cpu":
            # Those that are sent, and those that were: for the changes, or for an engine that is lost beside an update.
            copies = 2 if self.activation_bytes < 4 or self.max_staleness else 1
            sent = copies * self.shape.parameters * self.activation_bytes
            return self.ranks_per_node * (rank + PROCESS) + sent + JOB + self.reward_model_bytes
        return rank + PROCESS + self.reward_model_bytes

    def step_seconds(self, sequences: int, passes: Passes, learned_again: bool, cores: int | None) -> float | None:
        """About the longest that a step takes where the device's speed is known: all sequences are as long as can be,
        and nothing of them is shared. Two operations a parameter and pass forward, twice as many backward
        (arXiv:2001.08361, section 2.1). Passes forward: generation and the update, its activations a second time, the
        reference's, and that for old log-probs where a batch is `learned_again`. A critic takes as much again. `cores`:
        of a machine.
        """
        speed = SPEED.get(self.device)
        if speed is None or cores is None:
            return None
        forward = 2 + passes.recomputed + self.has_reference + learned_again
        models = 2 if self.has_critic else 1
        operations = models * (2 * forward + 4) * self.shape.parameters * self.max_tokens * sequences
        return BESIDE_S + operations / (min(cores, MOST_CORES) * self.ranks / self.ranks_per_node) / speed

    def _kept(self) -> int:
        """Weights, gradients and moments of what is trained, and the reference, which verl keeps in bfloat16. Each rank
        has its share; gradients are whole until the last pass of an update."""
        parameters = self.shape.parameters
        critic = self._trained(parameters) if self.has_critic else 0
        if self.lora_rank:  # the reference is the policy without them
            adapters = self._trained(self.shape.adapters(self.lora_rank))
            return 4 * parameters // self.ranks + adapters + critic
        reference = 2 * parameters // self.ranks if self.has_reference else 0
        return self._trained(parameters) + reference + critic

    def _trained(self, parameters: int) -> int:
        return 4 * parameters + 12 * parameters // self.ranks

    def _pass(self, passes: Passes) -> int:
        shape = self.shape
        layer = (HIDDEN_COPIES * shape.hidden + INNER_COPIES * shape.inner) * self.activation_bytes
        between = shape.layers * shape.hidden * self.activation_bytes
        activations = passes.tokens * (between + layer if passes.recomputed else shape.layers * layer)
        logits = SLICE_COPIES * min(SLICE, passes.tokens) * shape.vocabulary * 4
        head = (1 if self.lora_rank else 2) * shape.vocabulary * shape.hidden * 4  # gathered, and its gradient
        return activations + logits + head


def scoring_bytes(shape: Shape | None, size_bytes: int, activation_bytes: int) -> int:
    """A reward model's weights, in the precision of training, and a layer's activations of one pass. Where its shape is
    not known, of weights alone that were stored in half precision."""
    if shape is None:
        return size_bytes * activation_bytes // 2
    layer = (HIDDEN_COPIES * shape.hidden + INNER_COPIES * shape.inner) * activation_bytes
    return shape.parameters * activation_bytes + SCORED_TOKENS * layer


def fitting(training: Training, limit: int, tokens: int | None = None, recomputed: bool | None = None) -> Passes:
    """The fastest passes that stay well within `limit`; the leanest where none do. `tokens`, `recomputed`: given.

    The fastest are long, and keep their activations. Passes are shortened first, down to those of one sequence: making
    activations a second time costs a third of the arithmetic.
    """
    lengths = [tokens] if tokens else _lengths(training.max_tokens, MOST_TOKENS[training.device])
    tried = [Passes(length, again) for again in _either(recomputed) for length in lengths]
    comfortable = limit * COMFORTABLE[training.device]
    return next((passes for passes in tried if training.bytes(passes) <= comfortable), tried[-1])


def _either(chosen: bool | None) -> tuple[bool, ...]:
    return (False, True) if chosen is None else (chosen,)


def too_large(training: Training, passes: Passes, limit: int) -> str:
    """Why it does not fit, and what would change that."""
    needed = training.bytes(passes)
    kept = training.bytes(Passes(0, recomputed=True))
    where = "this machine" if training.device == "cpu" else "a GPU"
    leanest = Passes(training.max_tokens, recomputed=True)
    if passes != leanest and training.bytes(leanest) <= limit:
        change = "leave micro_batch_tokens and gradient_checkpointing to the service"
    elif kept <= limit:
        change = f"take fewer than {training.max_tokens} tokens of prompt and response"
    else:
        change = _with_fewer_bytes(training, limit)
    scoring = f", {_gib(training.reward_model_bytes)} of them the reward model's" if training.reward_model_bytes else ""
    shared = " (RATCHET_ROLLOUT_GPU_MEMORY_UTILIZATION says what engines take of it)" if where == "a GPU" else ""
    millions = f"{training.shape.parameters / 1e6:.0f} million"
    trained = "what LoRA learns" if training.lora_rank else "their gradients and the optimizer's state"
    return (
        f"training takes about {_gib(needed)} of {where}, and a run may take {_gib(limit)}: {_gib(kept)} for"
        f" {millions} parameters and {trained}{scoring}, and {_gib(needed - kept)} for"
        f" passes of {passes.tokens} tokens; {change}, or raise RATCHET_TRAINER_MEMORY_GIB{shared}"
    )


def training(
    hyper: Hyperparameters, algorithm: Algorithm, resources: Resources, found: Found, limits: Limits
) -> Training | None:
    """What memory is counted from; None where the base's shape is not known, or the device."""
    base, scored_by = found.base, found.reward_model
    if base is None or base.shape is None or resources.device not in MOST_TOKENS:
        return None
    return Training.of(
        base.shape,
        hyper,
        resources.ranks,
        resources.ranks_per_node,
        resources.device,
        limits.activation_bytes,
        algorithm.has_critic,
        algorithm.takes_pairs,
        scoring_bytes(scored_by.shape, scored_by.size_bytes, limits.activation_bytes) if scored_by else 0,
    )


def forecast_of(spec: RunSpec, found: Found, limits: Limits) -> Forecast | None:
    """Of a complete and valid spec. Raises FailedPrecondition where it cannot fit: the numbers, and what to change."""
    hyper = spec.hyperparameters
    counted = training(hyper, ALGORITHMS[spec.algorithm], spec.resources, found, limits)
    fewest = training(hyper, ALGORITHMS[spec.algorithm], spec.resources.smallest, found, limits)
    if counted is None or fewest is None:
        return None
    peak, limit = counted.bytes(spec.passes()), limits.memory_bytes
    if limit is not None and fewest.bytes(spec.passes()) > limit:
        raise FailedPrecondition(too_large(fewest, spec.passes(), limit))
    again = bool(hyper.kl_in_reward) or hyper.mini_batch_size not in (None, hyper.batch_size)
    seconds = counted.step_seconds(hyper.samples, spec.passes(), again, limits.cores)
    if seconds is None:
        return Forecast(peak, limit)
    forecast = Forecast(peak, limit, timedelta(seconds=round(seconds, 1)))
    if limits.prices is None:
        return forecast
    return replace(forecast, cost=limits.prices.cost(_most(spec, seconds, limits)), currency=limits.prices.currency)


def _most(spec: RunSpec, seconds: float, limits: Limits) -> Usage:
    """If each step is the longest, and all cores compute in it."""
    time = timedelta(seconds=spec.steps * seconds)
    hyper = spec.hyperparameters
    answers = spec.steps * hyper.samples if ALGORITHMS[spec.algorithm].is_online else 0
    prompts = answers // (hyper.group_size or 1)
    return Usage(
        cpu_time=time * (limits.cores or 1),
        prompt_tokens=prompts * (hyper.max_prompt_tokens or 0),
        completion_tokens=answers * (hyper.max_response_tokens or 0),
        wall_time=time,
    )


def _with_fewer_bytes(training: Training, limit: int) -> str:
    """What is kept whatever a pass takes."""
    with_lora = replace(training, lora_rank=LORA_RANK)
    ways = []
    if training.lora_rank == 0 and with_lora.bytes(Passes(training.max_tokens, recomputed=True)) <= limit:
        ways.append(f"train with LoRA (lora_rank={LORA_RANK})")
    if training.device == "cuda":
        ways.append("take more accelerators, which share the weights")
    return " or ".join([*ways, "take a smaller base"])


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


def _lengths(least: int, most: int) -> list[int]:
    """From `most`, halved again and again, to `least`."""
    lengths = []
    while most > least:
        lengths.append(most)
        most //= 2
    return [*lengths, least]
