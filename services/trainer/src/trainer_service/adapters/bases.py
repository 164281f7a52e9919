"""What a model's folder says of itself, its weights unread: whether a run can start from it, and what it takes."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from ratchet_kit import model_config, safetensors
from ratchet_kit.allowed_sources import Places
from ratchet_kit.errors import DataLoss, FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.model_config import GENERATION
from ratchet_kit.names import Location
from ratchet_kit.safetensors import Entry
from ratchet_kit.storage import Folder
from ratchet_problems import templates
from ratchet_problems.templates import Template
from trainer_service.adapters.tokenizers import TOKENIZER, Tokens, tokens_of
from trainer_service.domain.inputs.found import FoundModel, Shape

_MAX_JSON_BYTES = 16 << 20
_CONFIG = "config.json"
_INDEX = "model.safetensors.index.json"
_TOKENIZERS = (TOKENIZER, "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
_FLOATS = ("F64", "F32", "F16", "BF16")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_AT_A_TIME = 8
"""Files whose headers are read."""
_EMBEDDING = re.compile(r"(.+\.)?embed_tokens\.weight")
_LAYER = re.compile(r"(?:.+\.)?(?:layers|h)\.(\d{1,6})\..+")
_TEXT_LAYER = re.compile(r"model\.layers\.(\d{1,6})\..+")
"""Those of an encoder of images, which may be more, are elsewhere."""
_WRITERS = ("ForCausalLM", "ForConditionalGeneration")
"""How the architectures of models end that are learned with."""
_OF_LOGITS = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")
"""Settings by which Gemma 2, Cohere's models, Granite and Falcon H1 change logits: the passes of training know none."""
_HEAD = "lm_head.weight"
_HEAD_BIAS = "lm_head.bias"


def inspected(places: Places, uri: str, chat_template: str = "") -> FoundModel:
    """With the chat template in place of the folder's, where one is given. Raises NotFound where there is no model.
    What keeps one that is there from being trained is among its faults."""
    try:
        folder = places.open(uri)
        sizes = folder.sizes()
    except (InvalidArgument, FailedPrecondition) as error:
        raise NotFound(error.message) from error
    if _CONFIG not in sizes:
        raise NotFound(f"{uri} holds no model: {_CONFIG} is missing")
    config = _json(folder, _CONFIG, sizes, f"{uri} holds no model: ")
    weights = [name for name in sorted(sizes) if name.endswith(".safetensors") and "/" not in name]
    if not weights:
        raise NotFound(f"{uri} holds no model: there is no *.safetensors file")
    of_text = config.get("text_config")
    decoder = of_text if isinstance(of_text, dict) and of_text else config
    room = config.get("max_position_embeddings") or decoder.get("max_position_embeddings")
    outputs, faults = model_config.outputs(config), list(_config_faults(config, decoder))
    named, entries = _named(folder, sizes, faults), list[Entry]()
    weights = [name for name in weights if name in named] or weights
    if sizes.get(TOKENIZER) and not folder.read(TOKENIZER, end=64).lstrip().startswith(b"{"):
        faults.append("its tokenizer.json is not a JSON object (a pointer of Git LFS, or another page?)")
    tokens = tokens_of(folder, sizes)
    tokens = replace(tokens, template=chat_template or tokens.template)
    if not outputs:
        generation = model_config.read(folder.read(GENERATION)) if sizes.get(GENERATION) else None
        is_said = generation is not None or "eos_token_id" in config  # else its class has one of its own
        if is_said and not model_config.stops(config, generation):
            faults += _ending_faults(tokens)
        faults += _token_faults(tokens, decoder)
    try:
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            for some in pool.map(lambda name: _entries(folder, name, sizes[name]), weights):
                entries += some
        faults += _weight_faults(entries, decoder)
        if not outputs:
            faults += _head_faults(entries, config, decoder)
    except DataLoss as error:
        entries = []
        faults.append(error.message)
    size = sum(sizes[name] for name in weights)
    return FoundModel(
        Location(folder.uri),
        folder.uri,
        size_bytes=size,
        max_tokens=room if isinstance(room, int) and room > 0 else 0,
        shape=_shape(decoder, _parameters(entries) or size // _width(decoder)),
        has_chat_template=bool(tokens.template),
        template=templates.examined(tokens.template, tokens.special) if tokens.template else Template(),
        has_tokenizer=any(name in sizes for name in _TOKENIZERS),
        outputs=outputs,
        faults=tuple(faults),
        quantised=_quantised(entries, config),
        has_experts=any(decoder.get(name) for name in _EXPERTS),
    )


def _json(folder: Folder, name: str, sizes: Mapping[str, int], of: str) -> Mapping[str, Any]:
    """Raises NotFound for what is not a JSON object."""
    if sizes[name] > _MAX_JSON_BYTES:
        raise NotFound(f"{of}{name} has more than {_MAX_JSON_BYTES >> 20} MiB")
    try:
        said = json.loads(folder.read(name))
    except (ValueError, RecursionError) as error:
        raise NotFound(f"{of}{name} is not JSON ({error})") from error
    if not isinstance(said, dict):
        raise NotFound(f"{of}{name} is not an object")
    return said


def _config_faults(config: Mapping[str, Any], decoder: Mapping[str, Any]) -> Iterator[str]:
    kinds = config.get("architectures")
    if not isinstance(kinds, list) or not kinds:
        yield "its config.json names no architectures"
    elif len(kinds) > 1:
        yield f"its config.json names {len(kinds)} architectures, and must name the one that its weights are of"
    elif not model_config.outputs(config) and not str(kinds[0]).endswith(_WRITERS):
        yield f"its architecture, {kinds[0]}, cannot be trained: use one of {', '.join(_WRITERS)}"
    if not isinstance(config.get("model_type"), str):
        yield "its config.json names no model_type"
    for name in _SIZES:
        value = decoder.get(name)
        if value is not None and not isinstance(value, list) and not (isinstance(value, int) and value > 0):
            yield f"its config.json has {name} {value!r}, which must be 1 or more"
    heads, groups, width = (decoder.get(name) for name in ("num_attention_heads", "num_key_value_heads", "hidden_size"))
    if isinstance(heads, int) and heads > 0:
        if isinstance(groups, int) and (groups < 1 or heads % groups):
            yield f"its config.json has {heads} num_attention_heads, which {groups} num_key_value_heads cannot share"
        if isinstance(width, int) and width % heads and not decoder.get("head_dim"):
            yield f"its config.json has hidden_size {width}, which {heads} num_attention_heads cannot share"


def _ending_faults(tokens: Tokens) -> Iterator[str]:
    if not (tokens.has_others or tokens.special.get("eos_token")):
        yield (
            "nothing ends its answers: name the token that does as eos_token_id in generation_config.json, or as"
            " eos_token in tokenizer_config.json"
        )


def _token_faults(tokens: Tokens, decoder: Mapping[str, Any]) -> Iterator[str]:
    rows = decoder.get("vocab_size")
    if not isinstance(rows, int):
        return
    if tokens.largest >= rows:
        yield f"its tokenizer writes tokens up to {tokens.largest}, and config.json says that it knows {rows}"
    outside = sorted(text for text, id in tokens.added.items() if id >= rows and text in tokens.template)
    if outside:
        yield f"its chat template writes {outside[0]}, whose id is {tokens.added[outside[0]]}: it knows {rows} tokens"


def _head_faults(entries: Sequence[Entry], config: Mapping[str, Any], decoder: Mapping[str, Any]) -> Iterator[str]:
    """What the passes of training know nothing of: they compute log-probs from the hidden states by themselves."""
    names = {entry.name for entry in entries}
    if names and not any(_EMBEDDING.fullmatch(name) and ".decoder." not in f".{name}" for name in names):
        yield (
            "its weights have no model.embed_tokens: models of GPT-2's shape cannot be trained, those of Llama's and"
            " Qwen's can"
        )
    elif names and config.get("tie_word_embeddings") is False and not any(name.endswith(_HEAD) for name in names):
        yield f"its weights have no {_HEAD}, and config.json says that it is not tied to the embedding"
    if any(name.endswith(_HEAD_BIAS) for name in names):
        yield f"its weights have {_HEAD_BIAS}, which training would leave out"
    for name in _OF_LOGITS:
        if decoder.get(name) not in (None, 1, 1.0):
            yield f"its config.json has {name} {decoder[name]}, which training would leave out"


def _named(folder: Folder, sizes: Mapping[str, int], faults: list[str]) -> frozenset[str]:
    """The files of weights that the index names; empty where there is none. What is missing is added to the faults."""
    if _INDEX not in sizes:
        return frozenset()
    try:
        named = _json(folder, _INDEX, sizes, "").get("weight_map")
    except NotFound as error:
        faults.append(error.message)
        return frozenset()
    wanted = frozenset(str(name) for name in named.values()) if isinstance(named, dict) else frozenset()
    missing = sorted(wanted - set(sizes))
    if missing:
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        faults.append(f"{missing[0]}{more}, which {_INDEX} names, is missing")
    return wanted


def _entries(folder: Folder, name: str, size: int) -> Sequence[Entry]:
    """Raises DataLoss for a file that is no whole one."""
    prefix = folder.read(name, end=safetensors.PREFIX)
    if prefix.startswith(b"version "):
        raise DataLoss(f"{name} is a pointer of Git LFS: the weights themselves were not downloaded")
    data = safetensors.PREFIX + safetensors.header_size(prefix, name)
    return safetensors.entries(folder.read(name, safetensors.PREFIX, data), size - data, name)


def _weight_faults(entries: Sequence[Entry], decoder: Mapping[str, Any]) -> Iterator[str]:
    rows, width = decoder.get("vocab_size"), decoder.get("word_embed_proj_dim") or decoder.get("hidden_size")
    if isinstance(rows, int) and isinstance(width, int):
        for entry in filter(lambda entry: _EMBEDDING.fullmatch(entry.name), entries):
            # Some have more rows than their config says.
            if not (len(entry.shape) == 2 and entry.shape[0] >= rows and entry.shape[1] == width):
                found = "x".join(map(str, entry.shape))
                yield f"its {entry.name} is {found}, and config.json says {rows}x{width} (vocab_size, hidden_size)"
    layers, of_text = (
        {int(match[1]) for entry in entries if (match := pattern.fullmatch(entry.name))}
        for pattern in (_LAYER, _TEXT_LAYER)
    )
    said, ahead = decoder.get("num_hidden_layers"), decoder.get("num_nextn_predict_layers")
    if not isinstance(said, int):
        return
    most = said + (ahead if isinstance(ahead, int) else 0)
    if layers and (len(layers) < said or len(of_text) > most):
        yield f"its weights have {len(layers)} layers, and config.json says {said} (num_hidden_layers)"


def _quantised(entries: Sequence[Entry], config: Mapping[str, Any]) -> str:
    if config.get("quantization_config"):
        return "its config.json has a quantization_config"
    other = next((entry for entry in entries if entry.name.endswith("weight") and entry.dtype not in _FLOATS), None)
    return f"its {other.name} is {other.dtype}" if other else ""


def _parameters(entries: Sequence[Entry]) -> int:
    return sum(math.prod(entry.shape) for entry in entries)


def _width(config: Mapping[str, Any]) -> int:
    """Bytes of a stored value, by the config."""
    return 4 if "32" in str(config.get("dtype") or config.get("torch_dtype")) else 2


def _shape(config: Mapping[str, Any], parameters: int) -> Shape | None:
    """None for a config without the fields that decoders have."""
    try:
        return Shape(
            parameters=parameters,
            layers=int(config["num_hidden_layers"]),
            hidden=int(config["hidden_size"]),
            inner=int(config["intermediate_size"]),
            vocabulary=int(config["vocab_size"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
