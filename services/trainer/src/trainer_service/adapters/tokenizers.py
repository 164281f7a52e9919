"""What a model's folder says of its tokenizer, where transformers looks for it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ratchet_kit import model_config
from ratchet_kit.storage import Folder

TOKENIZER = "tokenizer.json"
_CONFIG = "tokenizer_config.json"
_TEMPLATE = "chat_template.jinja"
_TEMPLATES = (_TEMPLATE, "chat_template.json", "additional_chat_templates")
"""Where a model's folder may have chat templates, beside its config of the tokenizer."""
_MAX_BYTES = 64 << 20
_ANY = ("", "PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend")
"""Classes without special tokens of their own."""


@dataclass(frozen=True, slots=True)
class Tokens:
    template: str = ""
    """The source of the default chat template; empty where there is none."""
    special: Mapping[str, str] = field(default_factory=dict)
    """The texts of special tokens by name: `eos_token`, ..."""
    has_others: bool = False
    """Its class may have special tokens that its files do not name."""
    largest: int = -1
    """Id of its vocabulary, but for added tokens; -1: not known."""
    added: Mapping[str, int] = field(default_factory=dict)
    """The ids of added tokens by text."""


def tokens_of(folder: Folder, sizes: Mapping[str, int]) -> Tokens:
    config = _read(folder, sizes, _CONFIG)
    known = {**_read(folder, sizes, "special_tokens_map.json"), **config}
    special = {name: text for name, value in known.items() if name.endswith("_token") and (text := _text(value))}
    tokenizer = _read(folder, sizes, TOKENIZER)
    vocabulary = tokenizer.get("model")
    return Tokens(
        template=_template(folder, sizes, config),
        special=special,
        has_others=str(config.get("tokenizer_class") or "") not in _ANY,
        largest=_largest(vocabulary.get("vocab") if isinstance(vocabulary, dict) else None),
        added=dict(_added(tokenizer.get("added_tokens"))),
    )


def dress(model: Path, target: Path, template: str) -> None:
    """Makes a folder of the model with this chat template alone: its files are links, the tokenizer's config is a copy
    that has no template."""
    target.mkdir(parents=True)
    for file in model.iterdir():
        if file.name == _CONFIG:
            config = dict(model_config.read(file.read_bytes()))
            config.pop("chat_template", None)
            (target / _CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        elif file.name not in _TEMPLATES:
            (target / file.name).symlink_to(file.absolute())
    (target / _TEMPLATE).write_text(template, encoding="utf-8")


def _template(folder: Folder, sizes: Mapping[str, int], config: Mapping[str, Any]) -> str:
    if 0 < sizes.get(_TEMPLATE, 0) <= _MAX_BYTES:
        return folder.read(_TEMPLATE).decode(errors="replace")
    said = config.get("chat_template")
    if isinstance(said, list):  # one for each name
        named = [one for one in said if isinstance(one, dict) and one.get("name") == "default"]
        said = named[0].get("template") if named else None
    return said if isinstance(said, str) else ""


def _read(folder: Folder, sizes: Mapping[str, int], name: str) -> Mapping[str, Any]:
    """Empty where it is not there, or is not a JSON object."""
    return model_config.read(folder.read(name)) if 0 < sizes.get(name, 0) <= _MAX_BYTES else {}


def _text(value: Any) -> str:
    said = value.get("content") if isinstance(value, dict) else value
    return said if isinstance(said, str) else ""


def _largest(vocabulary: Any) -> int:
    """Of a mapping to ids, or a list by ids."""
    if isinstance(vocabulary, dict):
        return max((id for id in vocabulary.values() if isinstance(id, int)), default=-1)
    return len(vocabulary) - 1 if isinstance(vocabulary, list) else -1


def _added(tokens: Any) -> Iterator[tuple[str, int]]:
    for one in tokens if isinstance(tokens, list) else ():
        if isinstance(one, dict) and isinstance(one.get("id"), int):
            yield str(one.get("content")), one["id"]
