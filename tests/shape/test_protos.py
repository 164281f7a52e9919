"""One word, one meaning: what every message and every RPC of proto/ keeps to, beyond buf's own rules."""

import importlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.relative_to(ROOT / "proto").as_posix() for path in ROOT.glob("proto/ratchet/*/v1/*.proto"))
SHARED = ("ratchet/common/", "google/")
RPC = re.compile(r"((?:^ *//.*\n)*)^ *rpc (\w+)\((?:stream )?(\w+)\)", re.MULTILINE)
SERVICE = re.compile(r"((?:^//.*\n)*)^service (\w+)", re.MULTILINE)


def proto(name: str) -> FileDescriptor:
    module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    found: FileDescriptor = module.DESCRIPTOR
    return found


def messages(file: FileDescriptor) -> Iterator[Descriptor]:
    waiting = list(file.message_types_by_name.values())
    while waiting:
        message = waiting.pop()
        waiting += message.nested_types
        if not message.GetOptions().map_entry:
            yield message


def rpcs() -> Iterator[tuple[str, set[str], str]]:
    """Of each RPC its name, the fields of its request, and what is said of it and of its service."""
    for name in NAMES:
        text = (ROOT / "proto" / name).read_text()
        for service in SERVICE.finditer(text):
            body = text[service.end() : text.index("\n}", service.end())]
            for comment, rpc, request in RPC.findall(body):
                fields = set(proto(name).message_types_by_name[request].fields_by_name)
                yield rpc, fields, f"{service[1]}\n{comment}" if comment else ""


FIELDS = [field for name in NAMES for message in messages(proto(name)) for field in message.fields]
RPCS = list(rpcs())


def is_time(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name == "google.protobuf.Timestamp"


@pytest.mark.parametrize("name", NAMES)
def test_services_share_what_is_common_and_nothing_else(name: str) -> None:
    own = name.rpartition("/")[0]
    others = [file.name for file in proto(name).dependencies if not file.name.startswith((own, *SHARED))]
    assert others == [], "what several services speak of is in ratchet/common"


def test_one_word_has_one_meaning() -> None:
    kinds = [message for name in NAMES for message in messages(proto(name))]
    enums = [enum for kind in kinds for enum in kind.enum_types]
    enums += [enum for name in NAMES for enum in proto(name).enum_types_by_name.values()]
    words = Counter(kind.name for kind in [*kinds, *enums])
    # Each resource has a State of its own.
    assert {word for word, count in words.items() if count > 1} <= {"State"}


def test_times_end_in_time() -> None:
    assert [field.full_name for field in FIELDS if is_time(field) and not field.name.endswith("_time")] == []


def test_durations_are_durations() -> None:
    units = ("_ms", "_s", "_seconds", "_minutes", "_hours", "_at", "_timestamp")
    assert [field.full_name for field in FIELDS if field.name.endswith(units)] == []


def test_sizes_are_bytes_and_say_so() -> None:
    size = re.compile(r"(^|_)(size|(?<!out_of_)memory|kib|mib|gib|kb|mb|gb)$")
    counts = re.compile(r"(page|batch|group|parallel)_size$")  # of other things than bytes
    assert [field.full_name for field in FIELDS if size.search(field.name) and not counts.search(field.name)] == []


def test_every_rpc_says_what_it_does() -> None:
    assert len(RPCS) > 60
    assert [rpc for rpc, _, comment in RPCS if not comment] == []


def test_what_is_created_is_created_once() -> None:
    created = [(rpc, fields, comment) for rpc, fields, comment in RPCS if rpc.startswith(("Create", "Load"))]
    assert [rpc for rpc, fields, _ in created if "request_id" not in fields] == []
    assert [rpc for rpc, _, comment in created if "request_id" not in comment] == []


def test_lists_come_in_pages() -> None:
    assert [
        rpc for rpc, fields, _ in RPCS if rpc.startswith("List") and not fields >= {"page_size", "page_token"}
    ] == []


def test_what_may_not_be_there_is_not_found() -> None:
    about_one = [(rpc, comment) for rpc, fields, comment in RPCS if fields & {"id", "run_id"}]
    assert [rpc for rpc, comment in about_one if "NOT_FOUND" not in comment] == []
