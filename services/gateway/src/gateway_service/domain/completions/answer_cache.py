"""Answers that are given again to exactly the same request."""

import hashlib
from collections import OrderedDict
from dataclasses import replace
from datetime import timedelta

from gateway_service.domain.completions.completion import CompletionRequest, CompletionResponse
from gateway_service.domain.completions.router import Route
from gateway_service.domain.traffic.record import Arm
from ratchet_kit.names import VersionRef


class AnswerCache:
    """The latest answers, by the key that asked, the weights, the prompt and the sampling.

    An answer is kept where another would be the same: at temperature 0, or with a seed. What a release or an experiment
    judges is always made anew. An answer from the cache is the earlier one, its id included: it is not recorded again,
    and spends no tokens.
    """

    def __init__(self, size: int) -> None:
        """`size`: of answers; 0 keeps none."""
        self._size = size
        self._kept: OrderedDict[bytes, CompletionResponse] = OrderedDict()

    def takes(self, route: Route, request: CompletionRequest) -> bool:
        is_plain = route.arm is Arm.NONE and not route.is_judged
        return self._size > 0 and is_plain and _is_repeatable(request)

    def find(
        self, caller_id: str, version: VersionRef, policy_id: str, request: CompletionRequest
    ) -> CompletionResponse | None:
        key = _key(caller_id, version, policy_id, request)
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return replace(self._kept[key], is_cached=True, engine_time=timedelta(0))

    def keep(self, caller_id: str, request: CompletionRequest, response: CompletionResponse) -> None:
        self._kept[_key(caller_id, response.version, response.generation.policy_id, request)] = response
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)


def _is_repeatable(request: CompletionRequest) -> bool:
    return request.sampling.temperature == 0 or request.sampling.seed is not None


def _key(caller_id: str, version: VersionRef, policy_id: str, request: CompletionRequest) -> bytes:
    """Prompts may be long, and their hash is not."""
    parts = (caller_id, version, policy_id, request.prompt, request.sampling)
    return hashlib.sha256(repr(parts).encode()).digest()
