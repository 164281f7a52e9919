"""References to models between protobuf (ratchet.common.v1) and `ratchet_kit.names`. Pure."""

from ratchet.common.v1 import model_pb2 as pb
from ratchet_kit.errors import invalid
from ratchet_kit.names import (
    AliasRef,
    AnyModel,
    BareModel,
    Location,
    VersionRef,
    check_alias_name,
    check_model_name,
    check_version_number,
)


def version_to_proto(ref: VersionRef) -> pb.VersionRef:
    return pb.VersionRef(model=ref.model, number=ref.number)


def version_from_proto(message: pb.VersionRef, field: str = "version") -> VersionRef:
    """Raises InvalidArgument, which names the field below `field`."""
    return VersionRef(
        check_model_name(message.model, f"{field}.model"), check_version_number(message.number, f"{field}.number")
    )


def alias_to_proto(ref: AliasRef) -> pb.AliasRef:
    return pb.AliasRef(model=ref.model, alias=ref.alias)


def alias_from_proto(message: pb.AliasRef, field: str = "alias") -> AliasRef:
    """Raises InvalidArgument, which names the field below `field`."""
    return AliasRef(
        check_model_name(message.model, f"{field}.model"), check_alias_name(message.alias, f"{field}.alias")
    )


def model_to_proto(ref: AnyModel) -> pb.ModelRef:
    match ref:
        case VersionRef():
            return pb.ModelRef(version=version_to_proto(ref))
        case AliasRef():
            return pb.ModelRef(alias=alias_to_proto(ref))
        case BareModel(model):
            return pb.ModelRef(model=model)
        case Location(uri):
            return pb.ModelRef(uri=uri)


def model_from_proto(message: pb.ModelRef, field: str = "model") -> AnyModel:
    """Raises InvalidArgument, which names the field below `field`, also when nothing is set."""
    match message.WhichOneof("ref"):
        case "version":
            return version_from_proto(message.version, f"{field}.version")
        case "alias":
            return alias_from_proto(message.alias, f"{field}.alias")
        case "model":
            return BareModel(check_model_name(message.model, f"{field}.model"))
        case "uri" if message.uri:
            return Location(message.uri)
        case _:
            raise invalid(field, "must be a model, a version, an alias or a uri")
