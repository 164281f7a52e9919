"""What an open choice of a spec becomes. Every default is made here, once, at Create: GetRun shows what was taken.

Sources of the numbers: DAPO's clip range and token-mean loss, arXiv:2503.14476 (section 3.1); PPO's clip range,
arXiv:1707.06347 (section 6.1); GRPO, RLOO and REINFORCE++ without a KL term, as is usual with verifiable rewards
(arXiv:2503.20783, section 3; 2402.14740; 2501.03262). Learning rates: verl's examples for models of billions of
parameters; for models of millions, measured on the starter policy.
"""

from dataclasses import fields, replace

from trainer_service.domain.platform import BaseModel, Platform
from trainer_service.domain.spec import Algorithm, Hyperparameters, Priority, ProblemSetRef, Resources, RunSpec

MAX_MICRO_BATCH = 32
TOKENS = 256
"""Of a prompt, and of a response, where the model has room for both."""

_RL = Hyperparameters(
    batch_size=16,
    group_size=8,
    temperature=1.0,
    clip_low=0.2,
    clip_high=0.2,
    kl_coefficient=0.0,
    entropy_coefficient=0.0,
    max_grad_norm=1.0,
    gae_lambda=1.0,
    gamma=1.0,
    warmup_steps=5,
    weight_decay=0.01,
)
_OF = {
    Algorithm.GRPO: _RL,
    Algorithm.RLOO: _RL,
    Algorithm.DAPO: replace(_RL, clip_high=0.28),
    Algorithm.REINFORCE_PLUS_PLUS: replace(_RL, group_size=4, batch_size=32),
    Algorithm.PPO: replace(_RL, group_size=1, batch_size=128),
    Algorithm.SFT: Hyperparameters(
        batch_size=32,
        max_grad_norm=1.0,
        warmup_steps=20,
        weight_decay=0.01,
    ),
}


def complete(spec: RunSpec, base: BaseModel, platform: Platform) -> RunSpec:
    """The spec with every choice made. `spec` has passed `validation.faults`."""
    algorithm = Algorithm(spec.algorithm)
    resources = Resources(
        nodes=spec.resources.nodes or 1,
        accelerators_per_node=spec.resources.accelerators_per_node or 1,
        device=spec.resources.device or platform.devices[0],
    )
    return replace(
        spec,
        algorithm=algorithm,
        resources=resources,
        hyperparameters=hyperparameters(algorithm, spec.hyperparameters, resources.ranks, base),
        validation_problems=spec.validation_problems or _validation_of(spec.problems),
        reward="" if algorithm is Algorithm.SFT else spec.reward or "tests_passed",
        loggers=spec.loggers or ("console",),
        priority=Priority(spec.priority or Priority.NORMAL),
    )


def hyperparameters(
    algorithm: Algorithm, asked: Hyperparameters, ranks: int, base: BaseModel | None
) -> Hyperparameters:
    """`asked`, with the algorithm's defaults where it says nothing. `ranks`: training processes in all."""
    taken = _over(asked, _over(_learning_rates(algorithm, base is not None and base.is_small), _OF[algorithm]))
    taken = _over(taken, _lengths(taken, base.max_tokens if base else 0))
    if algorithm is not Algorithm.SFT:
        taken = _over(taken, Hyperparameters(mini_batch_size=taken.batch_size))
    return _over(taken, Hyperparameters(micro_batch_size=_micro_batch(per_rank(taken, ranks))))


def per_rank(taken: Hyperparameters, ranks: int) -> int:
    """Sequences of one gradient update that fall to one rank; 0 when they do not divide."""
    prompts = taken.mini_batch_size or taken.batch_size or 0
    sequences, rest = divmod(prompts * (taken.group_size or 1), max(ranks, 1))
    return 0 if rest else sequences


def applicable(algorithm: Algorithm) -> frozenset[str]:
    """The names of the hyperparameters that mean something to the algorithm."""
    names = {field.name for field in fields(Hyperparameters) if getattr(_OF[algorithm], field.name) is not None}
    names |= {"learning_rate", "micro_batch_size", "max_prompt_tokens", "max_response_tokens"}
    if algorithm is not Algorithm.SFT:
        names |= {"mini_batch_size"}
    if algorithm is Algorithm.PPO:
        names |= {"critic_learning_rate"}
    return frozenset(names)


def _learning_rates(algorithm: Algorithm, small: bool) -> Hyperparameters:
    if algorithm is Algorithm.SFT:
        return Hyperparameters(learning_rate=1e-3 if small else 1e-5)
    actor = 5e-5 if small else 1e-6
    if algorithm is Algorithm.PPO:
        return Hyperparameters(learning_rate=actor, critic_learning_rate=1e-3 if small else 1e-5)
    return Hyperparameters(learning_rate=actor)


def _lengths(asked: Hyperparameters, room: int) -> Hyperparameters:
    """Half of the room each, or what the other leaves of it; `room` 0 is not known."""
    each = min(TOKENS, room // 2) if room else TOKENS
    left = [
        room - (other or each) if room else TOKENS for other in (asked.max_response_tokens, asked.max_prompt_tokens)
    ]
    prompt, response = (max(1, min(TOKENS, tokens)) for tokens in left)
    return Hyperparameters(max_prompt_tokens=prompt, max_response_tokens=response)


def _micro_batch(sequences: int) -> int:
    """The largest divisor of what a rank has in an update that is within MAX_MICRO_BATCH."""
    return next((size for size in range(min(MAX_MICRO_BATCH, sequences), 0, -1) if sequences % size == 0), 1)


def _validation_of(problems: ProblemSetRef) -> ProblemSetRef | None:
    """A set that has splits is validated on its own validation split."""
    family, slash, split = problems.name.rpartition("/")
    is_named = slash and "/" not in family and not family.startswith(".")
    return ProblemSetRef(f"{family}/validation") if is_named and split == "train" else None


def _over(first: Hyperparameters, second: Hyperparameters) -> Hyperparameters:
    """`first`, and where it says nothing, `second`."""
    missing = {f.name: getattr(second, f.name) for f in fields(Hyperparameters) if getattr(first, f.name) is None}
    return replace(first, **missing)
