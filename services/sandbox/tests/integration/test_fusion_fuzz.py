"""Whatever the OpenAPI of the door allows, and much that it doesn't: an answer, and never one that says we broke."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_any_request_is_answered(
    fusion_service: Callable[..., AbstractContextManager[str]], mode: GenerationMode
) -> None:
    seen: Counter[tuple[str, int]] = Counter()
    with fusion_service() as url:
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        cases = st.one_of(
            operation.ok().as_strategy(generation_mode=mode)
            for operation in schema.get_all_operations()
            if operation.ok().body
        )

        @given(cases)
        @settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        def ask(case: schemathesis.Case) -> None:
            answer = case.call(timeout=60)
            seen[case.path, answer.status_code] += 1
            assert answer.status_code in (200, 400, 404, 405, 413, 415, 422, 501), answer.text
            answer.json()

        ask()
    assert {path for path, _ in seen} == {"/run_code", "/submit"}
    wanted = 200 if mode is GenerationMode.POSITIVE else 422
    assert seen["/run_code", wanted], seen
