"""What an open choice of a spec becomes. Every default is made here, once, at Create: GetRun shows what was taken.

An algorithm's own defaults stand in its row (`algorithms`). Which set a run is validated on by default depends on what
sets there are: `references` finds it.
"""

from dataclasses import fields, replace

from ratchet_kit.work import Priority
from trainer_service.domain.algorithms import ALGORITHMS, Algorithm
from trainer_service.domain.limits import Limits
from trainer_service.domain.ports import FoundModel
from trainer_service.domain.references import Found
from trainer_service.domain.spec import Hyperparameters, Resources, RunSpec

REWARD = "tests_passed"
LOGGERS = ("console",)
MAX_MICRO_BATCH = 32
TOKENS = 256
"""Of a prompt, and of a response, where the model has room for both."""


def complete(spec: RunSpec, found: Found, limits: Limits) -> RunSpec:
    """The spec with every choice made and its references pinned to what they lead to now: an alias may point elsewhere
    tomorrow, and every attempt starts from what it named at Create.

    Choices that are made already are kept, so that completing twice changes nothing. What is wrong, or was not found,
    stays as it is, for `validation.check` to name.
    """
    algorithm = ALGORITHMS.get(spec.algorithm)
    resources = Resources(
        nodes=1 if spec.resources.nodes is None else spec.resources.nodes,
        accelerators_per_node=1
        if spec.resources.accelerators_per_node is None
        else spec.resources.accelerators_per_node,
        device=spec.resources.device or limits.devices[0],
    )
    return replace(
        spec,
        base=found.base.ref if found.base else spec.base,
        problems=found.problems.ref if found.problems else spec.problems,
        validation_problems=found.validation_problems.ref if found.validation_problems else spec.validation_problems,
        resources=resources,
        hyperparameters=_hyperparameters(algorithm, spec.hyperparameters, resources.ranks, found.base)
        if algorithm
        else spec.hyperparameters,
        reward=spec.reward or ("" if algorithm and algorithm.takes_examples else REWARD),
        loggers=spec.loggers or LOGGERS,
        priority=spec.priority or Priority.NORMAL,
    )


def _hyperparameters(
    algorithm: Algorithm, chosen: Hyperparameters, ranks: int, base: FoundModel | None
) -> Hyperparameters:
    """`chosen`, with the algorithm's defaults where it says nothing. `ranks`: training processes in all."""
    of_size = algorithm.small if base and base.is_small else Hyperparameters()
    taken = _over(_over(chosen, of_size), algorithm.defaults)
    taken = _over(taken, _lengths(taken, base.max_tokens if base else 0))
    if not algorithm.takes_examples:
        # At least 1: a batch of none is a fault of batch_size alone.
        taken = _over(taken, Hyperparameters(mini_batch_size=max(taken.batch_size or 0, 1)))
    return _over(taken, Hyperparameters(micro_batch_size=_micro_batch(taken.update_sequences(ranks))))


def _lengths(chosen: Hyperparameters, room: int) -> Hyperparameters:
    """Half of the room each, or what the other leaves of it. `room`: tokens; 0: not known."""
    each = min(TOKENS, room // 2) if room else TOKENS
    left = [
        room - (other or each) if room else TOKENS for other in (chosen.max_response_tokens, chosen.max_prompt_tokens)
    ]
    prompt, response = (max(1, min(TOKENS, tokens)) for tokens in left)
    return Hyperparameters(max_prompt_tokens=prompt, max_response_tokens=response)


def _micro_batch(sequences: int) -> int:
    """The largest divisor of what a rank has in an update that is within MAX_MICRO_BATCH."""
    return next((size for size in range(min(MAX_MICRO_BATCH, sequences), 0, -1) if sequences % size == 0), 1)


def _over(first: Hyperparameters, second: Hyperparameters) -> Hyperparameters:
    """`first`, and where it says nothing, `second`."""
    missing = {f.name: getattr(second, f.name) for f in fields(Hyperparameters) if getattr(first, f.name) is None}
    return replace(first, **missing)
