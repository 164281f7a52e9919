import pytest

from ratchet_kit import names
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.names import AliasRef, BareModel, Location, ModelRef, RewardRef, VersionRef, policy_name

LONGEST = "m" * 63

LEGAL = [
    ("starter", BareModel("starter")),
    ("0", BareModel("0")),
    ("a.b_c-d", BareModel("a.b_c-d")),
    (LONGEST, BareModel(LONGEST)),
    ("starter@2", VersionRef("starter", 2)),
    ("7b@1", VersionRef("7b", 1)),
    (f"{LONGEST}@999999999", VersionRef(LONGEST, 999_999_999)),
    ("starter:champion", AliasRef("starter", "champion")),
    ("starter:prod.v2", AliasRef("starter", "prod.v2")),
    (f"{LONGEST}:{LONGEST}", AliasRef(LONGEST, LONGEST)),
    ("./starter", Location("./starter")),
    ("..", Location("..")),
    ("~/starter", Location("~/starter")),
    ("/models/Starter One", Location("/models/Starter One")),
    ("models/starter", Location("models/starter")),
    ("s3://bucket/starter@2", Location("s3://bucket/starter@2")),
]
ILLEGAL = {
    "": "a model (starter), a version (starter@2) or an alias (starter:champion)",
    " ": "start with a letter or a digit",
    "Starter": "start with a letter or a digit and hold at most 63 of a-z",
    "-starter": "start with a letter or a digit",
    "_starter": "start with a letter or a digit",
    LONGEST + "m": "at most 63",
    "stärter": "a-z",
    "starter\n": "a-z",
    "st arter": "not 'st arter'",
    "m@0": "from 1 on",
    "m@01": "without leading zeros",
    "m@-1": "from 1 on",
    "m@+1": "from 1 on",
    "m@": "from 1 on",
    "m@1 ": "not 'm@1 '",
    "m@١": "whole number",
    "m@1000000000": "whole number",
    "M M@0": "from 1 on",
    "M M@1": "name a model",
    "@1": "name a model",
    "m@1@2": "whole number",
    "m@1:champion": "whole number",
    "m:": "name an alias",
    "m:7": "name an alias, which must start with a letter",
    "m:Prod": "name an alias",
    "m:a:b": "name an alias",
    ":champion": "name a model",
}


@pytest.mark.parametrize(("text", "ref"), LEGAL)
def test_a_legal_name_is_read_and_written_the_same(text, ref):
    assert ModelRef.parse(text) == ref
    assert str(ref) == text


@pytest.mark.parametrize(("text", "says"), ILLEGAL.items())
def test_an_illegal_name_is_refused_with_what_is_legal(text, says):
    with pytest.raises(InvalidArgument) as refused:
        ModelRef.parse(text, "spec.model")
    [violation] = refused.value.violations
    assert violation.field == "spec.model"
    assert says in violation.description
    assert refused.value.message == f"spec.model {violation.description}"


@pytest.mark.parametrize(("text", "ref"), LEGAL)
def test_each_kind_reads_only_its_own(text, ref):
    for kind in (VersionRef, AliasRef):
        if isinstance(ref, kind):
            assert kind.parse(text) == ref
        else:
            with pytest.raises(InvalidArgument):
                kind.parse(text)


@pytest.mark.parametrize(("text", "ref"), LEGAL)
def test_the_registry_knows_no_folders(text, ref):
    if isinstance(ref, Location):
        with pytest.raises(InvalidArgument):
            ModelRef.parse_registered(text)
    else:
        assert ModelRef.parse_registered(text) == ref


def test_single_names_are_checked_by_the_same_rules():
    assert names.check_model_name("7b") == "7b"
    assert names.check_alias_name("prod.v2") == "prod.v2"
    assert names.check_version_number(1) == 1
    for check, value, field in [
        (names.check_model_name, "a/b", "model"),
        (names.check_alias_name, "7", "alias"),
        (names.check_version_number, 0, "number"),
        (names.check_version_number, 1_000_000_000, "number"),
    ]:
        with pytest.raises(InvalidArgument) as refused:
            check(value)
        assert refused.value.violations[0].field == field


def test_a_bare_model_means_its_champion():
    assert BareModel("starter").champion == AliasRef("starter", "champion")


def test_a_location_is_a_folder_or_a_url():
    assert Location("s3://bucket/m").is_url
    assert not Location("./m").is_url


def test_the_policy_of_an_attempt_has_a_name():
    assert policy_name("run_01", 2) == "run-run_01-2"


@pytest.mark.parametrize("ref", [RewardRef("brevity"), RewardRef("b_2", 7), RewardRef("b" * 40, 999_999_999)])
def test_rewards_are_read_as_they_are_written(ref: RewardRef) -> None:
    assert RewardRef.parse(str(ref)) == ref


@pytest.mark.parametrize(
    "text",
    ["", "2b", "_b", "Brevity", "b-c", "b.py", "b" * 41, "b\n", "b@", "b@0", "b@01", "b@1000000000", "b@1@2", "@1"],
)
def test_what_is_no_reward(text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        RewardRef.parse(text, "reward")
    assert [fault.field for fault in refused.value.violations] == ["reward"]
