"""How people name models: "starter", "starter@2", "starter:champion", a folder or a URL."""

from pathlib import Path, PurePosixPath

from ratchet.common.v1 import model_pb2
from ratchet_client import Client, address
from ratchet_kit import refs
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.names import CHAMPION, AliasRef, AnyModel, BareModel, Location, ModelRef, VersionRef
from ratchet_workflows.errors import UsageError, WorkflowError


def parse(text: str, *, here: bool = True) -> AnyModel:
    """Raises UsageError for a text in another form, and for a folder that is not there. A platform elsewhere
    (RATCHET_URL) looks for the folder on its own disk: it is passed on as it is, and must be absolute. `here`: folders
    are of this machine."""
    try:
        named = ModelRef.parse(text)
    except InvalidArgument as error:
        raise UsageError(f"'{text}' names no model: {error.message}.") from error
    if not isinstance(named, Location) or named.is_url:
        return named
    if not here or address.elsewhere():
        if not PurePosixPath(named.uri).is_absolute():
            raise UsageError(
                f"{text}: a relative folder is not known at {address.elsewhere() or 'the platform'}. Write it as the"
                " platform sees it: an absolute path or a URL."
            )
        return named
    folder = Path(named.uri).expanduser().absolute()
    if not folder.is_dir():
        raise UsageError(f"There is no folder {text}.")
    return Location(str(folder))


def model_ref(text: str, *, here: bool = True) -> model_pb2.ModelRef:
    return refs.model_to_proto(parse(text, here=here))


def version_of(client: Client, text: str) -> VersionRef:
    """The version that a name means now. Raises UsageError for folders, and WorkflowError for an
    alias that the model has not got."""
    named = parse(text)
    match named.champion if isinstance(named, BareModel) else named:
        case VersionRef() as version:
            return version
        case AliasRef(model, alias):
            if number := client.models.get(model).aliases.get(alias):
                return VersionRef(model, number)
            raise WorkflowError(f"{model} has no alias '{alias}'. See: ratchet models show {model}")
    raise UsageError(f"{text} is a folder; register it first: ratchet models add NAME {text}")


def champion(client: Client, model: str) -> VersionRef | None:
    """None when the model has none yet."""
    number = client.models.get(model).aliases.get(CHAMPION)
    return VersionRef(model, number) if number else None
