from typing import Any

import pytest

from ratchet_kit.model_config import outputs, read

CLASSIFIER = ["LlamaForSequenceClassification"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"architectures": ["LlamaForCausalLM"], "id2label": {"0": "LABEL_0"}}, 0),
        ({"architectures": CLASSIFIER, "id2label": {"0": "LABEL_0"}}, 1),
        ({"architectures": CLASSIFIER, "num_labels": 1}, 1),
        ({"architectures": CLASSIFIER}, 2),
        ({"architectures": CLASSIFIER[0]}, 0),
        ({}, 0),
    ],
)
def test_a_classifier_has_as_many_outputs_as_labels(config: dict[str, Any], expected: int) -> None:
    assert outputs(config) == expected


@pytest.mark.parametrize("text", ["{", "[]", "[" * 200_000, b"\xff"])
def test_what_is_no_config_says_nothing(text: str | bytes) -> None:
    assert read(text) == {}
