"""The policy id: a hash of the weights' content, the same wherever the weights are and however they are stored.

`sha256:<hex>` is taken over one line for each tensor, sorted by name:

    name dtype shape sha256(bytes)\\n

with the dtype as safetensors writes it ("F32", "BF16"), the shape as "2x3" ("" for a scalar), and the bytes little
endian and contiguous. A head that is tied to the embedding is left out: some writers store it twice, some once.

Beside it stands the settings id: a hash of what else decides how a model reads and what it answers, its config, its
tokenizer and its chat template. The same weights with another template are another model to whoever talks to them.
"""

import hashlib
import json
import mmap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ratchet_kit import safetensors
from ratchet_kit.errors import DataLoss

Buffer: TypeAlias = bytes | bytearray | memoryview

HEAD = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"

SETTINGS = frozenset(
    (
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "tokenizer.model",
        "spiece.model",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "vocab.txt",
        "merges.txt",
        "chat_template.json",
        "chat_template.jinja",
    )
)
"""The files of a Hugging Face model that the settings id is over, where they are there."""
_HISTORY = ("_name_or_path", "transformers_version")
"""What these files say of where they come from, which changes nothing."""
_MAX_JSON_BYTES = 1 << 28
"""Of a file of SETTINGS that is read as JSON; a larger one is hashed as it is."""


class Tensor(NamedTuple):
    """One tensor's name, dtype as in safetensors, shape, and bytes (little endian, contiguous)."""

    name: str
    dtype: str
    shape: Sequence[int]
    data: Buffer


def compute(tensors: Iterable[Tensor | tuple[str, str, Sequence[int], Buffer]]) -> str:
    """The policy id of `tensors`, in any order; each is hashed as it comes, so they need not all be in memory.

    Raises:
        ValueError: a name comes twice.
    """
    return of_hashes((name, dtype, shape, hashlib.sha256(data).hexdigest()) for name, dtype, shape, data in tensors)


def of_hashes(tensors: Iterable[tuple[str, str, Sequence[int], str]]) -> str:
    """The policy id of tensors of which the last is the sha256 of the bytes, in hex. Raises as `compute`."""
    lines: dict[str, str] = {}
    for name, dtype, shape, sha256 in tensors:
        if name in lines:
            raise ValueError(f"tensor {name} comes twice")
        lines[name] = f"{dtype} {'x'.join(map(str, shape))} {sha256}"
    if HEAD in lines and lines[HEAD] == lines.get(EMBEDDING):
        del lines[HEAD]
    content = "".join(f"{name} {lines[name]}\n" for name in sorted(lines))
    return "sha256:" + hashlib.sha256(content.encode()).hexdigest()


def of_folder(folder: Path) -> str:
    """The policy id of the `*.safetensors` files in `folder`: one file or shards.

    Raises:
        FileNotFoundError: there is no such file.
        DataLoss: one of them is not a whole safetensors file.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"no .safetensors file in {folder}")
    return compute(tensor for file in files for tensor in read_safetensors(file))


def check_finite(folder: Path) -> None:
    """Raises DataLoss that names the first tensor of the folder with an infinity or a NaN, and what `of_folder` raises
    for a file that is not whole: no engine computes anything with such weights. Apart from `of_folder`, which weights
    that are sent at each step go through, too."""
    for file in sorted(folder.glob("*.safetensors")):
        for tensor in read_safetensors(file):
            if not safetensors.is_finite(tensor.dtype, tensor.data):
                raise DataLoss(f"tensor {tensor.name} in {file.name} has a value that is NaN or infinite")


def settings_of_folder(folder: Path) -> str:
    """The settings id of a model's folder, "sha256:<hex>": over one line for each of its SETTINGS, "name sha256\\n", by
    name. JSON is hashed as what it says, not as it is written."""
    lines = ""
    for name in sorted(SETTINGS):
        if (folder / name).is_file():
            lines += f"{name} {_settings(folder / name)}\n"
    return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()


def _settings(file: Path) -> str:
    said = None
    if file.suffix == ".json" and file.stat().st_size <= _MAX_JSON_BYTES:
        with suppress(ValueError, RecursionError):
            said = json.loads(file.read_bytes())
    if not isinstance(said, dict):
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    kept = json.dumps({name: said[name] for name in said if name not in _HISTORY}, sort_keys=True)
    return hashlib.sha256(kept.encode()).hexdigest()


def read_safetensors(file: Path) -> Iterator[Tensor]:
    """The tensors of a file in the format of https://github.com/huggingface/safetensors#format, mapped, not copied.

    A tensor's `data` is valid until the next one is asked for.

    Raises:
        DataLoss: the file is cut short, or its header is none.
    """
    if file.stat().st_size == 0:
        raise DataLoss(f"{file} is empty")
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        start = safetensors.PREFIX + safetensors.header_size(mapped[: safetensors.PREFIX], str(file))
        entries = safetensors.entries(mapped[safetensors.PREFIX : start], len(mapped) - start, str(file))
        with memoryview(mapped) as whole:
            for name, dtype, shape, begin, end in entries:
                with whole[start + begin : start + end] as data:
                    yield Tensor(name, dtype, shape, data)
