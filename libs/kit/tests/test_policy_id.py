import hashlib
import json
import math
import random
import resource
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from ratchet_kit import policy_id, safetensors
from ratchet_kit.errors import DataLoss
from ratchet_kit.policy_id import Tensor

EMBEDDING = Tensor("model.embed_tokens.weight", "F32", (2, 3), struct.pack("<6f", *range(6)))
NORM = Tensor("model.norm.weight", "BF16", (3,), b"\x80\x3f" * 3)
SCALE = Tensor("scale", "F32", (), struct.pack("<f", 2))


def write(file: Path, *tensors: Tensor) -> None:
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, dtype, shape, content in tensors:
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        data += content
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_the_formula():
    lines = "".join(
        f"{name} {dtype} {shape} {hashlib.sha256(data).hexdigest()}\n"
        for name, dtype, shape, data in [
            (EMBEDDING.name, "F32", "2x3", EMBEDDING.data),
            (NORM.name, "BF16", "3", NORM.data),
            (SCALE.name, "F32", "", SCALE.data),
        ]
    )
    assert policy_id.compute([SCALE, NORM, EMBEDDING]) == "sha256:" + hashlib.sha256(lines.encode()).hexdigest()


def test_the_order_does_not_matter():
    tensors = [EMBEDDING, NORM, SCALE]
    expected = policy_id.compute(tensors)
    for _ in range(5):
        random.shuffle(tensors)
        assert policy_id.compute(tensors) == expected


@pytest.mark.parametrize(
    "changed",
    [
        NORM._replace(data=b"\x80\x3f" * 2 + b"\x81\x3f"),
        NORM._replace(dtype="F16"),
        NORM._replace(shape=(1, 3)),
        NORM._replace(name="model.norm.bias"),
    ],
)
def test_every_part_counts(changed):
    assert policy_id.compute([EMBEDDING, changed]) != policy_id.compute([EMBEDDING, NORM])


def test_a_tied_head_does_not_count():
    head = EMBEDDING._replace(name="lm_head.weight")
    assert policy_id.compute([head, EMBEDDING, NORM]) == policy_id.compute([EMBEDDING, NORM])


def test_a_head_of_its_own_counts():
    head = EMBEDDING._replace(name="lm_head.weight", data=bytes(24))
    assert policy_id.compute([head, EMBEDDING, NORM]) != policy_id.compute([EMBEDDING, NORM])


def test_a_name_that_comes_twice_is_refused():
    with pytest.raises(ValueError, match=r"norm\.weight"):
        policy_id.compute([NORM, NORM])


def test_plain_tuples_and_any_buffer():
    assert policy_id.compute([("scale", "F32", [], memoryview(bytearray(SCALE.data)))]) == policy_id.compute([SCALE])


def test_one_file_and_shards_are_the_same(tmp_path):
    one, shards = tmp_path / "one", tmp_path / "shards"
    one.mkdir()
    shards.mkdir()
    write(one / "model.safetensors", NORM, EMBEDDING, SCALE)
    write(shards / "model-00001-of-00002.safetensors", SCALE, EMBEDDING)
    write(shards / "model-00002-of-00002.safetensors", NORM)
    assert policy_id.of_folder(one) == policy_id.of_folder(shards) == policy_id.compute([EMBEDDING, NORM, SCALE])


def test_a_folder_without_weights(tmp_path):
    with pytest.raises(FileNotFoundError):
        policy_id.of_folder(tmp_path)


def test_a_file_that_was_cut_short(tmp_path):
    file = tmp_path / "model.safetensors"
    write(file, NORM, EMBEDDING)
    content = file.read_bytes()
    for length in (len(content) - 1, 20, 7, 0):
        file.write_bytes(content[:length])
        with pytest.raises(DataLoss, match=r"model\.safetensors"):
            policy_id.of_folder(tmp_path)


def settings(folder: Path, **files: str) -> str:
    folder.mkdir()
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return policy_id.settings_of_folder(folder)


def test_settings_are_what_the_files_say(tmp_path: Path) -> None:
    one = settings(tmp_path / "one", config__json='{"a": 1, "b": [2]}', chat_template__jinja="{{ x }}")
    same = settings(
        tmp_path / "same",
        config__json='{\n"b": [2], "a": 1, "_name_or_path": "/home/me", "transformers_version": "4.0"}',
        chat_template__jinja="{{ x }}",
        README__md="Hello",
        model__safetensors="weights",
    )
    assert one == same
    assert one.startswith("sha256:")


@pytest.mark.parametrize(
    "files",
    [
        {"config__json": '{"a": 2}', "chat_template__jinja": "{{ x }}"},
        {"config__json": '{"a": 1}', "chat_template__jinja": "{{ y }}"},
        {"config__json": '{"a": 1}'},
        {"config__json": '{"a": 1}', "chat_template__jinja": "{{ x }}", "tokenizer__json": "{}"},
        {"config__json": "{not json", "chat_template__jinja": "{{ x }}"},
    ],
)
def test_other_settings_are_another_model(tmp_path: Path, files: dict[str, str]) -> None:
    one = settings(tmp_path / "one", config__json='{"a": 1}', chat_template__jinja="{{ x }}")
    assert settings(tmp_path / "other", **files) != one


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"null",
        b"[" * 200_000,
        b'{"a": []}',
        b'{"a": {"dtype": "F32", "shape": [1]}}',
        b'{"a": {"dtype": "F32", "shape": [1.5], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": ["0", "4"]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0.5, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 2, 4]}}',
    ],
)
def test_what_has_no_header_is_no_file_of_weights(tmp_path, header):
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(DataLoss, match="not a safetensors file"):
        policy_id.of_folder(tmp_path)


def test_a_header_has_a_size(tmp_path):
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", 1 << 32))
        file.truncate((1 << 32) + 8)  # as sparse as a file can be
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataLoss, match="its header would have 4294967296 bytes"):
        policy_id.of_folder(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


@pytest.mark.parametrize("content", [b"[" * 200_000, b"[]", b"\xff"])
def test_settings_that_are_no_object_are_hashed_as_they_are(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    line = f"config.json {hashlib.sha256(content).hexdigest()}\n"
    assert policy_id.settings_of_folder(tmp_path) == f"sha256:{hashlib.sha256(line.encode()).hexdigest()}"


def half(values: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(values)}e", *values)


def brain(values: Sequence[float]) -> bytes:
    packed = struct.pack(f"<{len(values)}f", *values)
    return b"".join(packed[at + 2 : at + 4] for at in range(0, len(packed), 4))


ENCODINGS = {
    "F16": half,
    "BF16": brain,
    "F32": lambda values: struct.pack(f"<{len(values)}f", *values),
    "F64": lambda values: struct.pack(f"<{len(values)}d", *values),
}
LARGEST = {"F16": 65504.0, "BF16": 3.38e38, "F32": 3.4028234e38, "F64": 1.7976931348623157e308}


@pytest.mark.parametrize("dtype", ENCODINGS)
@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_found_and_named(tmp_path: Path, dtype: str, broken: float) -> None:
    encode, sound = ENCODINGS[dtype], [0.0, -1.5, LARGEST[dtype], -LARGEST[dtype], 1e-7]
    good = Tensor("good", dtype, (5,), encode(sound))
    assert safetensors.is_finite(dtype, memoryview(good.data))
    write(tmp_path / "model-1.safetensors", good)
    policy_id.check_finite(tmp_path)
    for place in range(5):
        values = [*sound[:place], broken, *sound[place + 1 :]]
        write(tmp_path / "model-2.safetensors", good, Tensor("model.bad", dtype, (5,), encode(values)))
        with pytest.raises(DataLoss, match=r"tensor model\.bad in model-2\.safetensors has a value that is NaN"):
            policy_id.check_finite(tmp_path)


def test_whole_numbers_are_finite_and_parts_are_looked_at_in_turn() -> None:
    assert safetensors.is_finite("I32", b"\xff" * 8)
    assert safetensors.is_finite("F8_E4M3", b"\xff" * 8)
    late = bytes(5 << 20) + brain([math.nan])
    assert not safetensors.is_finite("BF16", late)
