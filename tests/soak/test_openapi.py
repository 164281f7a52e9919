"""Whatever is sent to any route of the whole platform: no 5xx, and nothing that OpenAPI does not describe."""

import os
from collections import Counter
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from ratchet_testing.openapi import CHECKS
from tests.e2e.conftest import Platform, platform

__all__ = ["platform"]  # the fixture

EXAMPLES = int(os.environ.get("OPENAPI_EXAMPLES", "30"))
"""Of each route and mode."""

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_answer_is_described(platform: Platform, mode: GenerationMode) -> None:
    with platform.client() as client:
        url = client.url
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    headers = {"Authorization": f"Bearer {platform.home.admin_key()}"}
    seen: Counter[tuple[str, int]] = Counter()
    failures: list[str] = []
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()

        @given(operation.as_strategy(generation_mode=mode))
        @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        def send(case: Any) -> None:
            answer = case.call_and_validate(headers=headers, checks=CHECKS, timeout=120)
            seen[case.operation.label, answer.status_code] += 1

        try:
            send()
        except Unsatisfiable:
            pass  # nothing can be wrong about a request without parameters
        except Exception as error:  # noqa: BLE001 (all routes are tried)
            failures.append(f"{operation.label}: {error}")
    print(Counter(status for _, status in seen.elements()))
    assert failures == []
    assert len({label for label, _ in seen}) > 60
