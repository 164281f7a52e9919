"""What OpenAPI says of the gateway's own doors is what they do: whatever is sent, no 5xx and nothing undocumented.

tests/soak/test_openapi.py is the same with all services for real.
"""

import asyncio
from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from ratchet_testing.openapi import CHECKS

from ..world import ADMIN_KEY

OWN = (
    "/v1/",
    "/generate",
    "/healthz",
    "/readyz",
    *(f"/api/v1/{name}" for name in ("keys", "releases", "feedback", "traffic")),
)
COMPLETIONS = {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/generate"}
PROMPTS = {"messages": [{"role": "user", "content": "say hi"}], "input": "say hi", "prompt": "say hi"}
EXAMPLES = 90


def send_anything(url: str, mode: GenerationMode) -> Counter[tuple[str, int]]:
    """How often each path answered with each status."""
    seen: Counter[tuple[str, int]] = Counter()
    schema = schemathesis.openapi.from_url(f"{url.removesuffix('/v1')}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    cases = [one.as_strategy(generation_mode=mode) for one in operations if one.path.startswith(OWN)]

    @given(st.one_of(cases))
    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def send(case: schemathesis.Case) -> None:
        if isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
            case.body["model"] = "starter"  # else hardly any request would come further than to its model
            for name, some in PROMPTS.items():  # nor, for half of them, further than to its prompt
                if name in case.body and mode is GenerationMode.POSITIVE and sum(seen.values()) % 2:
                    case.body[name] = some
        answer = case.call_and_validate(headers=headers, checks=CHECKS, timeout=30)
        seen[case.path, answer.status_code] += 1

    send()
    return seen


@pytest.mark.integration
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
async def test_every_answer_is_described(url: str, mode: GenerationMode) -> None:
    seen = await asyncio.to_thread(send_anything, url, mode)
    assert len({path for path, _ in seen}) >= 8
    if mode is GenerationMode.POSITIVE:
        answered = {path for path, status in seen if status == 200}
        assert answered & COMPLETIONS, seen
