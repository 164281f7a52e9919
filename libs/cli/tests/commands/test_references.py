"""How people name models."""

import pytest

from ratchet_cli.commands.references import model_ref


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("starter", "alias", "starter:champion"),
        ("starter:candidate", "alias", "starter:candidate"),
        ("starter@2", "version", "starter@2"),
        ("s3://bucket/model", "path", "s3://bucket/model"),
    ],
)
def test_names_of_models(text: str, kind: str, value: str) -> None:
    ref = model_ref(text)
    assert ref.WhichOneof("ref") == kind
    assert getattr(ref, kind) == value
