import pytest

from ratchet.common.v1 import model_pb2 as pb
from ratchet_kit import refs
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.names import AliasRef, BareModel, Location, VersionRef

BOTH = [
    (VersionRef("starter", 2), pb.ModelRef(version=pb.VersionRef(model="starter", number=2))),
    (AliasRef("starter", "champion"), pb.ModelRef(alias=pb.AliasRef(model="starter", alias="champion"))),
    (BareModel("starter"), pb.ModelRef(model="starter")),
    (Location("s3://bucket/m"), pb.ModelRef(uri="s3://bucket/m")),
]


@pytest.mark.parametrize(("ref", "message"), BOTH)
def test_a_reference_goes_both_ways(ref, message):
    assert refs.model_to_proto(ref) == message
    assert refs.model_from_proto(message) == ref


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (pb.ModelRef(), "base"),
        (pb.ModelRef(uri=""), "base"),
        (pb.ModelRef(model="No"), "base.model"),
        (pb.ModelRef(version=pb.VersionRef(model="m")), "base.version.number"),
        (pb.ModelRef(version=pb.VersionRef(number=1)), "base.version.model"),
        (pb.ModelRef(alias=pb.AliasRef(model="m", alias="7")), "base.alias.alias"),
    ],
)
def test_what_names_nothing_is_refused_by_its_field(message, field):
    with pytest.raises(InvalidArgument) as refused:
        refs.model_from_proto(message, "base")
    assert [violation.field for violation in refused.value.violations] == [field]


def test_single_references_go_both_ways():
    assert refs.version_from_proto(refs.version_to_proto(VersionRef("m", 1))) == VersionRef("m", 1)
    assert refs.alias_from_proto(refs.alias_to_proto(AliasRef("m", "a"))) == AliasRef("m", "a")
