"""How people name models: "starter", "starter@2", "starter:champion", or a folder."""

import re
from dataclasses import dataclass
from pathlib import Path

from ratchet.common.v1 import common_pb2
from ratchet_cli.terminal.errors import CommandError
from ratchet_client import Client

_NAMED = re.compile(r"(?P<model>[a-z0-9][a-z0-9._-]*)(?:@(?P<number>\d+)|:(?P<alias>[a-z0-9_-]+))?")


@dataclass(frozen=True)
class ModelVersion:
    model: str
    number: int

    def __str__(self) -> str:
        return f"{self.model}@{self.number}"


def model_ref(text: str) -> common_pb2.ModelRef:
    """A bare model name means its champion. Raises CommandError for a text that is none of the forms."""
    if "/" in text or text.startswith("."):
        if "://" not in text and not Path(text).is_dir():
            raise CommandError(f"There is no folder {text}.", code=2)
        return common_pb2.ModelRef(path=text if "://" in text else str(Path(text).absolute()))
    match = _NAMED.fullmatch(text)
    if match is None:
        raise CommandError(f"'{text}' names no model: write name, name@version, name:alias or a folder.", code=2)
    if match["number"]:
        return common_pb2.ModelRef(version=text)
    return common_pb2.ModelRef(alias=f"{match['model']}:{match['alias'] or 'champion'}")


def version_of(client: Client, text: str) -> ModelVersion:
    """The version that a name means now. Raises CommandError for folders and unknown aliases."""
    ref = model_ref(text)
    match ref.WhichOneof("ref"):
        case "version":
            model, text_number = ref.version.split("@")
            return ModelVersion(model, int(text_number))
        case "alias":
            model, alias = ref.alias.split(":")
            number = champion(client, model) if alias == "champion" else client.models.get(model).aliases.get(alias)
            if not number:
                raise CommandError(f"{model} has no alias '{alias}'. See: ratchet models show {model}")
            return ModelVersion(model, number)
        case _:
            raise CommandError(f"{text} is a folder; register it first: ratchet models add NAME {text}", code=2)


def champion(client: Client, model: str) -> int | None:
    """The number of the champion, None when the model has none yet."""
    return client.models.get(model).aliases.get("champion")
