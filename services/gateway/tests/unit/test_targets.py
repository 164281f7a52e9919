import pytest

from gateway_service.domain.targets import AliasRef, ReleasedRef, VersionRef, parse_target
from ratchet_kit.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("starter", ReleasedRef("starter")),
        ("starter@2", VersionRef("starter", 2)),
        ("qwen2.5-coder:champion", AliasRef("qwen2.5-coder", "champion")),
    ],
)
def test_reads_and_writes(text: str, target: object) -> None:
    assert parse_target(text) == target
    assert str(target) == text


@pytest.mark.parametrize("text", ["", "Starter", "starter@0", "starter@x", "starter@", "a:b:c", "../x", "starter@1\n"])
def test_names_the_field_of_what_is_none(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_target(text)
    assert caught.value.violations[0].field == "model"
